"""The history of one source: what changed when and why, and the way back.

The repository lies in the state directory, apart from the source: the user's folder and the user's own repository stay
as they are, and no skill brings a repository, hooks or settings of git along. Each change is one commit. What is found
changed on disk is committed as an edit by hand before anything else happens, so that nothing is lost.

A caller may not see all skills of the source. A skill may lie in the folder of another one, one commit may change
several skills, and a skill that the caller sees now may have been another one before. So each version of a skill is
judged by what it was: a version that the caller would not have seen does not exist, as if the skill had been removed
for that time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

from skills_core.diagnostics import printable
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.disk.writing import JsonFile, exclusive
from skills_core.errors import HistoryError, did_you_mean, similar_to
from skills_core.history.changes import PENDING, Changer, entry_at, read_state
from skills_core.history.repository import Repository, create_repository
from skills_core.history.versions import (
    BEGINNING,
    BY_HAND,
    FOLDER_MODE,
    Cause,
    EntryKind,
    HistoryCommit,
    TreeEntry,
    add_folders,
    changed_units,
    id_of,
    is_within,
    message_with_trailers,
    parents_of,
    part_of,
    require_base,
    set_file,
    unified_diff,
)

if TYPE_CHECKING:
    from skills_core.history.changes import DiskState
    from skills_core.history.maintenance import Secret
    from skills_core.history.versions import HistoryCommit, SourceState


Sees: TypeAlias = "Callable[[str, bytes | None], bool]"
"""Tells whether the caller sees a version of a skill: by its path in the source, and the bytes of its main file in that
version, None if there are none."""

_SINGLE_FILE = ".skill.md"
_MESSAGES: Mapping[str, str] = {Cause.INITIAL: BEGINNING, Cause.MANUAL: BY_HAND}
# What a commit says in any case, whatever it changed.


@dataclass(frozen=True, slots=True)
class SeenPart:
    """What is seen of the skill `name`, without the versions and the skills in its folder that `sees` does not accept.

    `read` returns the bytes of a blob. Without `sees` everything is seen.
    """

    name: str
    read: Callable[[str], bytes]
    sees: Sees | None = None

    def of(self, state: SourceState, *others: SourceState) -> dict[str, TreeEntry]:
        """Return the seen entries of a state; a skill that is hidden in one of the `others` is hidden here too."""
        if self.hides(state):
            return {}
        is_hidden = self._hidden_in(state, *others)
        return {path: entry for path, entry in state.items() if not is_hidden(path)}

    def rest(self, state: SourceState, *others: SourceState) -> dict[str, TreeEntry]:
        """Return the entries of skills inside that are not seen, with the folders above them."""
        is_hidden = self._hidden_in(state, *others)
        kept = [path for path in state if is_hidden(path)]
        paths = {*kept, *chain.from_iterable(map(parents_of, kept))}
        return {path: entry for path, entry in state.items() if path in paths}

    def hides(self, state: SourceState) -> bool:
        """Tell whether the skill, as it is in a state, is not seen."""
        return not self._shows(self.name, state)

    def revs(self, repository: Repository, among: Iterable[str] | None = None) -> Iterator[str]:
        """Yield the commits that changed what is seen, the newest first; `among` are those that changed the skill."""
        for rev in repository.revs(self.name or None) if among is None else among:
            if self.sees is None or self._is_changed(repository, rev):
                yield rev

    def _is_changed(self, repository: Repository, rev: str) -> bool:
        parent = repository.parent_of(rev)
        after = repository.state(rev, self.name)
        before = {} if parent is None else repository.state(parent, self.name)
        return self.of(after, before) != self.of(before, after)

    def commit(self, commit: HistoryCommit, repository: Repository) -> HistoryCommit:
        """Return what a commit says of seen skills; its own words may tell of others, or of what a skill was."""
        if self.sees is None:
            return commit
        parent = repository.parent_of(commit.rev)
        shown = {skill: self._versions(repository, skill, commit.rev, parent) for skill in commit.skills}
        if all(all(versions) for versions in shown.values()):
            return commit
        skills = tuple(skill for skill, versions in shown.items() if any(versions))
        return replace(commit, skills=skills, message=_MESSAGES.get(commit.cause, commit.cause), trace_id=None)

    def _versions(self, repository: Repository, skill: str, *revs: str | None) -> list[bool]:
        """Tell for each of the commits that have a skill whether it is seen there."""
        states = (repository.state(rev, skill) for rev in revs if rev is not None)
        return [self._shows(skill, state) for state in states if state]

    def _shows(self, skill: str, state: SourceState) -> bool:
        """Tell whether a skill is seen as it is in a state; what is not there hides nothing."""
        if self.sees is None or not any(is_within(path, skill) for path in state):
            return True
        names = (skill, *(f"{skill}/{name}".lstrip("/") for name in (MAIN_FILE, MAIN_FILE_LOWERCASE)))
        entries = (state[name] for name in names if name in state)
        main = next((self.read(entry.blob) for entry in entries if entry.kind is EntryKind.FILE), None)
        return self.sees(skill, main)

    def _hidden_in(self, *states: SourceState) -> Callable[[str], bool]:
        if self.sees is None:
            return lambda _: False
        found = set(_skills(chain.from_iterable(states))) - {self.name}
        inner = {skill for skill in found if is_within(skill, self.name)}
        hidden = {skill for skill in inner if not all(self._shows(skill, state) for state in states)}
        seen = found - hidden

        def is_hidden(path: str) -> bool:
            for folder in (path, *reversed(parents_of(path))):
                if folder in hidden:
                    return True
                if folder in seen:
                    return False
            return False

        return is_hidden


def _skills(paths: Iterable[str]) -> Iterable[str]:
    for path in paths:
        folder, _, file = path.rpartition("/")
        if file in {MAIN_FILE, MAIN_FILE_LOWERCASE}:
            yield folder
        elif file.lower().endswith(_SINGLE_FILE):
            yield path


class KnownRevs(NamedTuple):
    """The commits that changed a skill, newest first, as of the commit `head` of the source."""

    head: str | None
    revs: tuple[str, ...]


logger = logging.getLogger(__name__)

_REPOSITORY: Final = "repository.git"
_MAX_LISTED: Final = 5


class History:
    """Reads and keeps the history of the source at `root`. Names of skills are paths of their folders in the source.

    Methods may be called from several threads and processes at once. They raise `HistoryError` if a skill or a commit
    does not exist, or if files or the history cannot be read or written.
    """

    def __init__(
        self, root: Path, folder: Path, *, work_trees: bool = False, left_out: frozenset[str] = frozenset()
    ) -> None:
        """Open the history in `folder`, and create its repository if there is none.

        With `work_trees`, folders in the source that are git work trees of the user are recorded too. Files with the
        names `left_out` are neither recorded nor touched.
        """
        self.root = root
        self._folder = folder
        self._work_trees = work_trees
        self._left_out = left_out
        self._warned: set[tuple[str, str]] = set()
        try:
            with exclusive(folder / "history"):
                create_repository(folder / _REPOSITORY)
        except OSError as error:
            raise _unwritable(folder, error) from error
        self._repository = Repository(folder / _REPOSITORY)

    @property
    def repository(self) -> Path:
        """The bare git repository, for other programs of git."""
        return self._folder / _REPOSITORY

    def revs(self, name: str, known: KnownRevs | None = None) -> KnownRevs:
        """Return the commits that changed a skill, whoever sees that; what is `known` from before is not read again."""
        head = self._repository.head
        if known is not None and (known.head is None or not self._repository.has(known.head)):
            known = None
        new = self._repository.revs(name or None, None if known is None else known.head)
        return KnownRevs(head, tuple(dict.fromkeys([*new, *(known.revs if known is not None else ())])))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files of the repository."""
        self._repository.close()

    def commits(
        self,
        name: str | None = None,
        limit: int | None = None,
        sees: Sees | None = None,
        among: Iterable[str] | None = None,
    ) -> tuple[HistoryCommit, ...]:
        """Return the newest commits, newest first, or those that changed one skill.

        Here and below, `sees` accepts the versions of skills that the caller sees; without it they are all seen.
        `among` is what `revs` has returned for the skill, where the caller knows it.
        """
        seen = SeenPart(name or "", self._repository.read, sees)
        found = map(self._repository.describe, islice(seen.revs(self._repository, among), limit))
        return tuple(seen.commit(commit, self._repository) for commit in found)

    def names(self) -> frozenset[str]:
        """Return the names of all skills that commits have changed, removed ones included."""
        return frozenset(skill for commit in self.commits() for skill in commit.skills)

    def find(self, name: str) -> str:
        """Return the path in the source of the skill that a user or model names: its path, or its folder's name."""
        known = self.names()
        if name in known:
            return name
        found = sorted(path for path in known if (path.rpartition("/")[2] or self.root.name) == name)
        if len(found) == 1:
            return found[0]
        if found:
            choices = ", ".join(map(printable, found[:_MAX_LISTED]))
            raise HistoryError(f"{name[:200]!r}: several skills have this name; expected a path, such as {choices}")
        hint = did_you_mean(similar_to(name, known))
        raise HistoryError(f"{printable(str(self.root))}: its history has no skill {name[:200]!r}.{hint}")

    def diff(
        self,
        name: str,
        rev: str | None = None,
        shows: Callable[[str], bool] = lambda _: True,
        sees: Sees | None = None,
    ) -> str:
        """Return what differs from a commit to the files now: what `rollback` with these arguments would take back.

        Only paths that `shows` accepts are compared; they are relative to the source.
        """
        disk: dict[str, bytes] = {}

        def keep(content: bytes) -> str:
            number = id_of(content)
            disk[number] = content
            return number

        def read(blob: str) -> bytes:
            return disk[blob] if blob in disk else self._repository.read(blob)

        now = self._read(name, keep).entries
        seen = SeenPart(name, read, sees)
        before = self._repository.state(self._version(seen, rev, now), name)
        before, now = seen.of(before, now), seen.of(now, before)
        before, now = ({path: entry for path, entry in state.items() if shows(path)} for state in (before, now))
        return unified_diff(before, now, read)

    def change_of(
        self, name: str, rev: str, shows: Callable[[str], bool] = lambda _: True, sees: Sees | None = None
    ) -> str:
        """Return what a commit changed in a skill; `rev` is a whole id, the rest is as for `diff`."""
        parent = self._repository.parent_of(rev)
        seen = SeenPart(name, self._repository.read, sees)
        before, after = self._repository.state(parent, name), self._repository.state(rev, name)
        before, after = seen.of(before, after), seen.of(after, before)
        before, after = ({path: entry for path, entry in state.items() if shows(path)} for state in (before, after))
        return unified_diff(before, after, self._repository.read)

    def complete(self) -> None:
        """Complete the change that a crash interrupted, as every other change of the history does first."""
        with self._locked():
            pass

    def record(
        self, names: Sequence[str], cause: str, message: str, trace_id: str | None = None
    ) -> HistoryCommit | None:
        """Commit the files of these skills as they are now; return the commit, None if nothing has changed."""
        with self._locked():
            if self._repository.head is None:
                self._begin(names)
            return self._record(names, cause, message, trace_id)

    def record_manual_edits(self, names: Sequence[str] = ("",)) -> HistoryCommit | None:
        """Commit what has changed since the last commit, by default in the whole source; None if nothing has."""
        with self._locked():
            return self._record_manual(names)

    @contextmanager
    def changing(self, names: Sequence[str], cause: str, message: str, trace_id: str | None = None) -> Iterator[None]:
        """Record what the block changes in these skills as one commit, and manual edits before it as another.

        Other processes cannot change the history meanwhile, so the block must be short. If it raises, what it has
        written counts as edited by hand.
        """
        with self._locked():
            self._record_manual(names)
            yield
            self._record(names, cause, message, trace_id)

    def change(
        self,
        name: str,
        files: Mapping[str, bytes | None],
        cause: str,
        message: str,
        trace_id: str | None = None,
        *,
        base: Mapping[str, bytes] | None = None,
    ) -> HistoryCommit | None:
        """Write files of a skill as one change that is made completely or not at all; None removes a file.

        Paths are relative to the skill's folder. Existing files keep their modes. Return None if nothing differs. With
        `base`, the change is made only if these files have these contents; `SkillEditedError` is raised otherwise.
        """
        with self._locked():
            self._record_manual((name,))
            state = self._repository.state(self._repository.head, name)
            require_base(state, name, base or {})
            for relative, content in files.items():
                set_file(state, name, relative, None if content is None else self._repository.keep(content))
            return self._change_to(name, state, cause, message, trace_id)

    def rollback(
        self,
        name: str,
        rev: str | None = None,
        trace_id: str | None = None,
        sees: Sees | None = None,
    ) -> HistoryCommit | None:
        """Restore a skill as it was at a commit, by default before its newest change; return the new commit.

        Unrecorded edits are committed first. Return None if the skill is as it was then.
        """
        with self._locked():
            self._record_manual((name,))
            seen = SeenPart(name, self._repository.read, sees)
            head = self._repository.state(self._repository.head, name)
            if seen.hides(head):
                raise self._unknown(name)
            found = self._version(seen, rev, head)
            state = self._repository.state(found, name)
            short = found[:10]
            # Skills in its folder that the caller does not see stay as they are.
            state = {**seen.rest(head, state), **seen.of(state, head)}
            if not seen.of(state):
                raise HistoryError(f"{name[:200]!r} did not exist at {short}; choose another commit")
            return self._change_to(name, state, Cause.ROLLBACK, f"Restore the version of {short}", trace_id, found)

    def forget(self, secret: Secret) -> tuple[int, tuple[str, ...]]:
        """Remove a secret from all versions, from all objects, and from what a crash has left.

        The commits that had it, and those after them, have other ids then. Return how many commits had it, and in
        which files.
        """
        with self._locked():
            found: set[str] = set()

            def keep(content: bytes) -> str:
                number = id_of(content)
                if secret.is_in(content):
                    found.add(number)
                return number

            state = self._read("", keep).entries
            places = sorted(
                path for path, entry in state.items() if entry.blob in found or secret.is_in(os.fsencode(path))
            )
            if places:
                listed = ", ".join(map(printable, places[:_MAX_LISTED]))
                raise HistoryError(
                    f"{printable(str(self.root))}: the secret is in files that are there now ({listed}), so the next "
                    "version would have it again; remove it from them first"
                )
            for left in self._folder.glob(f"{PENDING}*"):
                left.unlink(missing_ok=True)
            return self._repository.forget(secret)

    def _version(self, seen: SeenPart, rev: str | None, now: Mapping[str, TreeEntry]) -> str:
        """Return the commit to compare with or to restore."""
        if rev is not None:
            return self._repository.find(rev)
        name = seen.name
        newest = next(seen.revs(self._repository), None)
        if newest is None:
            raise self._unknown(name)
        recorded = self._repository.state(newest, name)
        if seen.of(now, recorded) != seen.of(recorded, now):
            return newest
        parent = self._repository.parent_of(newest)
        if parent is None or not seen.of(self._repository.state(parent, name), now):
            raise HistoryError(f"{name[:200]!r} has no earlier version than that of {newest[:10]}")
        return parent

    def _unknown(self, name: str) -> HistoryError:
        return HistoryError(f"{printable(str(self.root))}: its history has no skill {name[:200]!r}")

    def _change_to(
        self,
        name: str,
        state: Mapping[str, TreeEntry],
        cause: str,
        message: str,
        trace_id: str | None,
        restores: str | None = None,
    ) -> HistoryCommit | None:
        head = self._repository.state(self._repository.head)
        if part_of(head, name) == state:
            return None
        new = {**{path: entry for path, entry in head.items() if not is_within(path, name)}, **state}
        add_folders(new, name)
        text = message_with_trailers(message, cause, changed_units(head, new), trace_id, restores)
        rev = self._changer.change(name, self._repository.write_state(new), text)
        # An edit that was saved during the change stays, and is a commit of its own.
        self._record_manual((name,))
        return self._repository.describe(rev)

    def _record_manual(self, names: Sequence[str]) -> HistoryCommit | None:
        if self._repository.head is None:
            return self._begin()
        return self._record(names, Cause.MANUAL, BY_HAND, None)

    def _begin(self, changed: Sequence[str] = ()) -> HistoryCommit | None:
        """Commit the whole source, so that each skill has a first version; without skills that have just changed."""
        return self._record(("",), Cause.INITIAL, BEGINNING, None, without=changed)

    def _record(
        self, names: Sequence[str], cause: str, message: str, trace_id: str | None, *, without: Sequence[str] = ()
    ) -> HistoryCommit | None:
        head = self._repository.head
        before = self._repository.state(head)
        after = dict(before)
        for name in names:
            self._read_into(after, before, name)
        for name in without:
            for path in part_of(after, name):
                del after[path]
        if after == before and (head is not None or cause != Cause.INITIAL):
            return None
        text = message_with_trailers(message, cause, changed_units(before, after), trace_id)
        rev = self._repository.commit(self._repository.write_state(after), head, text)
        self._repository.move_head(rev, head)
        return self._repository.describe(rev)

    def _read_into(self, state: dict[str, TreeEntry], before: Mapping[str, TreeEntry], name: str) -> None:
        """Replace the entries of a unit by those on disk; what cannot be read keeps its last recorded version."""
        disk = self._read(name, self._repository.keep)
        kept = {path: entry for path, entry in before.items() if any(is_within(path, each) for each in disk.unreadable)}
        for path in part_of(state, name):
            del state[path]
        state |= {**kept, **disk.entries}
        for folder in (*parents_of(name), *(above for path in kept for above in parents_of(path))):
            now = before.get(folder) or entry_at(self.root, folder) or TreeEntry(EntryKind.FOLDER, FOLDER_MODE)
            state.setdefault(folder, now)
        self._warn_of(disk.unreadable)

    def _read(self, name: str, keep: Callable[[bytes], str]) -> DiskState:
        return read_state(self.root, name, keep, work_trees=self._work_trees, left_out=self._left_out)

    def _warn_of(self, unreadable: Mapping[str, str]) -> None:
        """Log which files are not recorded, each of them once."""
        new = sorted(unreadable.items() - self._warned)
        self._warned |= set(new)
        if new:
            listed = "; ".join(f"{printable(path)}: {why}" for path, why in new[:_MAX_LISTED])
            more = f"; and {len(new) - _MAX_LISTED} more" if len(new) > _MAX_LISTED else ""
            logger.warning("history: %s: not recorded: %s%s", printable(str(self.root)), listed, more)

    @property
    def _changer(self) -> Changer:
        journal = JsonFile(self._folder / PENDING)
        return Changer(self.root, self._repository, journal, self._work_trees, self._left_out)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the history, and complete a change that a crash interrupted."""
        with ExitStack() as stack:
            try:
                stack.enter_context(exclusive(self._folder / "history"))
            except TimeoutError as error:
                where = printable(str(self.root))
                raise HistoryError(f"{where}: another process is changing its history; try again") from error
            except OSError as error:
                raise _unwritable(self._folder, error) from error
            if rev := self._changer.recover():
                logger.warning("history: completed the interrupted change %s", rev[:10])
            yield
            try:
                self._repository.pack()
            except HistoryError as error:
                # What was to be recorded is; the next change packs.
                logger.warning("history: %s", error)


def _unwritable(folder: Path, error: OSError) -> HistoryError:
    why = (error.strerror or str(error)).lower()
    return HistoryError(f"{printable(str(folder))}: the history cannot be written: {why}")
