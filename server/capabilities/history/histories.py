"""The histories of this user: which sources have one, what is recorded and forgotten, and what a caller sees."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.history.settings import HistorySettings, RecordedSources, recorded_sources
from server.config.bootstrap import user_settings
from server.config.machine import Machine, current_places, state_home
from server.config.sources import sources_of
from skills_core.diagnostics import printable
from skills_core.disk.folders import EVALS
from skills_core.disk.sources import Scope, SkillKind, Source, real_path
from skills_core.errors import HistoryError, SkillsError, did_you_mean, similar_to
from skills_core.format.instructions import kind_of_file, parse_instructions, parse_single_file, strictness_for
from skills_core.history.store import (
    existing_histories,
    folder_of_history,
    has_history,
    is_available,
    no_extra,
    open_history,
    unreadable_histories,
    work_tree_of,
)
from skills_core.history.versions import Cause
from skills_core.skills.skill import Skill, SkillContent, SkillFiles, State

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.disk.sources import Source
    from skills_core.format.instructions import Instructions
    from skills_core.history.history import History, Sees
    from skills_core.history.maintenance import Secret


logger = logging.getLogger(__name__)

_MAX_CHOICES: Final = 5


@dataclass(frozen=True, slots=True)
class RecordedSkill:
    """A skill in a history: the root of the history, its path there, and the source that it belongs to."""

    root: Path
    name: str
    source: Source = field(compare=False)


@dataclass(frozen=True, slots=True)
class Histories:
    """The histories of this user, and the settings that choose the sources which have one.

    The settings, and `others` of other capabilities, name sources. Sources of the usual scopes are covered too, but
    their histories begin only when skillserve changes a skill, or the user asks for a history.
    """

    settings: HistorySettings
    others: tuple[RecordedSources, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Histories:
        """Return the histories by all settings."""
        own = settings.section(HistorySettings)
        return cls(own, tuple(each for each in recorded_sources(settings) if each is not own))

    def covers(self, source: Source) -> bool:
        """Tell whether changes of a source are recorded: it is covered, and in no repository of the user."""
        if self._names(source.scope, source.root):
            return self._may_record(source.root, warns=True)
        is_usual = source.scope in self.settings.usual_scopes and is_available()
        return is_usual and self._may_record(source.root, warns=False)

    def records_at_start(self, source: Source) -> bool:
        """Tell whether edits of a source are recorded when a server starts: it is named, or has a history."""
        is_named = self._names(source.scope, source.root)
        return (is_named or has_history(source.root, state_home())) and self.covers(source)

    def obstacle(self, source: Source) -> str | None:
        """Return why changes of a source are not recorded, None if they are."""
        if not self.covers(source):
            return self._why_not_kept(source)
        return None if is_available() else no_extra()

    def open(self, root: Path) -> History:
        """Open the history of the source at `root`, and create it if there is none.

        Raises:
            HistoryError: see `open_history`.
        """
        return open_history(root, state_home(), work_trees=self.settings.work_trees)

    def at_start(self, sources: Iterable[Source]) -> tuple[Path, ...]:
        """Return the roots of the sources whose edits are recorded when a server starts."""
        roots = (source.root for source in sources if self.records_at_start(source) and source.root.is_dir())
        return tuple(dict.fromkeys(roots))

    def kept(self, catalog: Catalog) -> tuple[Path, ...]:
        """Return the roots of the sources that have a history already, or are named."""
        sources = [each.source for each in catalog.sources]
        named = self.at_start(sources)
        roots = dict.fromkeys(source.root for source in sources)
        return tuple(root for root in roots if root in named or has_history(root, state_home()))

    def root_of(self, path: Path, sources: Iterable[Source] = ()) -> Path | None:
        """Return the root of the innermost recorded source that contains a path; None if there is none.

        `sources` are the default and configured ones. A directory that was named on a command line counts once it has a
        history.
        """
        place = real_path(path)
        known = [source for source in sources if place.is_relative_to(source.root) and self.covers(source)]
        roots = [source.root for source in known] + [
            root for root in self._directories if self._may_record(root, warns=True)
        ]
        if self.settings.automatic or Scope.EXPLICIT in self.settings.scopes:
            roots += [root for root in existing_histories(state_home()) if self._may_record(root, warns=False)]
        found = [root for root in roots if place.is_relative_to(root)]
        return max(found, key=lambda each: len(each.parts), default=None)

    def find(self, name: str, catalog: Catalog, *, removed: bool = True) -> RecordedSkill:
        """Return the skill that a user or model names; with `removed`, one that only a history knows counts too.

        Raises:
            HistoryError: there is no such skill, no history is kept of its source, or several sources have one.
        """
        skills = [skill for skill in catalog.skills if name in {skill.key, skill.path, *skill.content.names}]
        active = [skill for skill in skills if skill.state is State.ACTIVE]
        located = [self.located(skill) for skill in active or skills]
        kept = list(dict.fromkeys(each for each in located if each is not None))
        if not skills and removed:
            kept = list(self._removed(name, catalog))
        if len(kept) == 1:
            return kept[0]
        if kept:
            choices = ", ".join(printable(str(each.root / each.name)) for each in kept[:_MAX_CHOICES])
            choices += f" and {len(kept) - _MAX_CHOICES} more" if len(kept) > _MAX_CHOICES else ""
            raise HistoryError(
                f"{name[:200]!r}: several skills have this name: {choices}; name its path in its source, or only "
                "that source"
            )
        if not skills:
            similar = did_you_mean(similar_to(name, (skill.key for skill in catalog.skills)))
            raise HistoryError(f"there is no skill {name[:200]!r}, and no history has one.{similar}")
        raise HistoryError(self._why_not_kept(skills[0].source))

    def names_in(self, root: Path, catalog: Catalog) -> frozenset[str]:
        """Return the names that the skills of a catalog have in the history of the source at `root`."""
        located = (self.located(skill) for skill in catalog.skills)
        return frozenset(each.name for each in located if each is not None and each.root == root)

    def located(self, skill: Skill) -> RecordedSkill | None:
        """Return a skill in the history of its source, or of a folder around it that has one; None if neither has."""
        root, place = skill.source.root, skill.content.place
        if self.covers(skill.source) or has_history(root, state_home()):
            return RecordedSkill(root, place, skill.source)
        whole = root / place
        around = [root for root in existing_histories(state_home()) if whole.is_relative_to(root)]
        outer = max(around, key=lambda each: len(each.parts), default=None)
        return None if outer is None else RecordedSkill(outer, whole.relative_to(outer).as_posix(), skill.source)

    def _removed(self, name: str, catalog: Catalog) -> Iterable[RecordedSkill]:
        for root, source in {each.source.root: each.source for each in catalog.sources}.items():
            if has_history(root, state_home()):
                with open_history(root, state_home(), work_trees=True) as history:
                    try:
                        yield RecordedSkill(root, history.find(name), source)
                    except HistoryError as error:
                        logger.debug("%s", error)

    def _names(self, scope: Scope, root: Path) -> bool:
        """Tell whether the settings name a source."""
        return any(scope in each.scopes for each in self._sections) or root in self._directories

    def _why_not_kept(self, source: Source) -> str:
        root = source.root
        where = printable(str(root))
        if source.scope in {Scope.PLUGIN, Scope.BUNDLED}:
            return f"{where}: no history is kept of {source.scope} skills, because skillserve changes none of them"
        if source.scope in self.settings.usual_scopes and not is_available():
            return no_extra()
        if (place := work_tree_of(root)) is not None and not self.settings.work_trees:
            repository = printable(str(place))
            return (
                f"{where}: no history is kept of this source, because it is in your git repository {repository}. Use "
                "git there, or set history.work_trees to keep a history beside it"
            )
        return (
            f"{where}: no history is kept of this source. Name it, or its scope {source.scope}, in the setting "
            "history.sources"
        )

    def _may_record(self, root: Path, *, warns: bool) -> bool:
        if self.settings.work_trees or (place := work_tree_of(root)) is None:
            return True
        if warns:
            _warn_of(root, place)
        return False

    @property
    def _sections(self) -> tuple[RecordedSources, ...]:
        return (self.settings, *(self.others if self.settings.automatic else ()))

    @property
    def _directories(self) -> list[Path]:
        named = [folder for each in self._sections for folder in each.directories]
        return [real_path(Path(os.path.abspath(each))) for each in named]  # noqa: PTH100 - `resolve` may raise


@functools.cache
def _warn_of(root: Path, place: Path) -> None:
    """Log once that a source which the settings name is left out."""
    message = "history: %s is in the git repository %s, so no history is kept of it; see history.work_trees"
    logger.warning(message, printable(str(root)), printable(str(place)))


SCHEDULE_STATE: Final = frozenset({"schedule.json"})
"""The file beside a scheduler skill that changes at each firing; it is not part of the skill."""

_MANY = 20
# With more skills than this, the whole source is compared; for each skill by itself it would take longer.


def scheduler_root(state: Path | None = None) -> Path:
    """Return the folder of the scheduler skills in a state directory, by default that of this user."""
    return real_path(state or state_home()) / "skills" / "scheduler"


def record_scheduler_skills(
    names: Sequence[str] = ("",),
    message: str | None = None,
    *,
    state: Path | None = None,
    settings: Settings | None = None,
) -> None:
    """Commit how scheduler skills are now, as a change of skillserve with this message, or else as edits by hand.

    Nothing is done without the extra, or if the settings record nothing but named sources. A failure is logged, because
    no schedule depends on its history.
    """
    if not is_available():
        return
    state = state or state_home()
    try:
        settings = settings if settings is not None else user_settings(Machine(current_places()), {})
        if not settings.section(HistorySettings).automatic:
            return
        with open_history(scheduler_root(state), state, work_trees=True, left_out=SCHEDULE_STATE) as history:
            if message is None:
                history.record_manual_edits(names)
            else:
                history.record(names, Cause.SCHEDULE, message)
    except SkillsError as error:
        logger.warning("history: %s", error)


@contextmanager
def recorded_change(
    folders: Sequence[Path], cause: str, message: str, trace_id: str | None = None, settings: Settings | None = None
) -> Iterator[None]:
    """Record what the block changes in these folders of skills, as one commit for each source that has a history.

    What was edited by hand before is recorded first. `settings` are by default those of this user. A folder in no such
    source is changed without a record.

    Raises:
        HistoryError: the change cannot be recorded; if it is raised before the block, nothing is changed.
    """
    machine = Machine(current_places())
    settings = settings if settings is not None else user_settings(machine, {})
    changed: dict[Path, list[str]] = {}
    histories = Histories.of(settings)
    chosen = settings.section(HistorySettings)
    if chosen.sources or chosen.automatic:
        sources = sources_of(None, settings, machine.places)
        for folder in folders:
            root = histories.root_of(folder, sources)
            if root is not None:
                place = real_path(folder).relative_to(root).as_posix()
                changed.setdefault(root, []).append("" if place == "." else place)
    with ExitStack() as stack:
        for root, names in sorted(changed.items()):
            history = stack.enter_context(histories.open(root))
            stack.enter_context(history.changing(names if len(names) <= _MANY else [""], cause, message, trace_id))
        yield


def is_shown(unit: str, path: str, *, evals: bool) -> bool:
    """Tell whether what differs in a file of a skill is shown; those of evals may hold the expected answers.

    `unit` is the skill's path in the history. Skills in its folder may have evals of their own.
    """
    inside = path[len(unit) :].lstrip("/")
    return evals or EVALS not in inside.casefold().split("/")


def versions_seen(root: Path, source: Source, shows: Callable[[Skill], bool], visible: Container[str]) -> Sees:
    """Return what judges versions of the skills of `source` in the history of the folder `root`.

    `shows` judges a skill by its content and source. Of skills that are not `visible` now, by their paths in the
    history, no version is seen: that they are hidden may have other reasons than their content.
    """

    def sees(path: str, main: bytes | None) -> bool:
        if path not in visible:
            return False
        whole = root / path
        place = whole.relative_to(source.root).as_posix() if whole.is_relative_to(source.root) else path
        place = "" if place == "." else place
        return shows(_skill(source, place, whole.name, main or b""))

    return sees


def _skill(source: Source, place: str, name: str, main: bytes) -> Skill:
    """Return a version of a skill with what a view judges it by."""
    folders = place.split("/")[:-1]
    kind = kind_of_file(folders, name) or SkillKind.FOLDER
    instructions: Instructions | None = None
    strictness = strictness_for(source.strictness, folders, kind)
    if kind is not SkillKind.FOLDER:
        instructions = parse_single_file(main, kind, name, place, strictness)
    if instructions is None:
        instructions = parse_instructions(main, name, place, strictness)
    content = SkillContent(place, instructions, SkillFiles(), None, kind=kind)
    return Skill(content, source, content.name, place or content.name, State.ACTIVE)


_BLOCK: Final = 1024 * 1024
_HISTORIES: Final = "history"


@dataclass(frozen=True, slots=True)
class ForgottenIn:
    """What was done in the history of `source`: how many commits had the secret in which files, or why it failed."""

    source: Path
    commits: int = 0
    files: tuple[str, ...] = ()
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the object that the command prints."""
        return {
            "source": printable(str(self.source)),
            "commits": self.commits,
            "files": [printable(file) for file in self.files],
            "fault": self.fault or None,
        }


def forget_in_histories(secret: Secret, folders: Collection[Path] = ()) -> list[ForgottenIn]:
    """Remove a secret from all histories of this user, or only from those of these folders; one fault stops none."""
    roots = {real_path(folder.absolute()) for folder in folders}
    found = []
    for root in existing_histories(state_home()):
        if roots and root not in roots:
            continue
        try:
            with open_history(root, state_home(), work_trees=True) as history:
                commits, files = history.forget(secret)
            found.append(ForgottenIn(root, commits, files))
        except HistoryError as error:
            found.append(ForgottenIn(root, fault=str(error)))
    unreadable = unreadable_histories(state_home()).items()
    return found + [ForgottenIn(folder, fault=why) for folder, why in unreadable if not roots or _is_of(folder, roots)]


def _is_of(folder: Path, roots: Collection[Path]) -> bool:
    return any(folder_of_history(root, state_home()) == folder for root in roots)


def files_with(secret: Secret) -> list[Path]:
    """Return the other files of the state directory that hold a secret: traces, records of runs, logs, schedules."""
    state = state_home()
    return sorted(file for file in _files(state) if _has(file, secret))


def _files(state: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(state):
        if Path(folder) == state and _HISTORIES in folders:
            folders.remove(_HISTORIES)
        yield from (file for name in names if (file := Path(folder, name)).is_file() and not file.is_symlink())


def _has(file: Path, secret: Secret) -> bool:
    """Tell whether a file holds the secret; one that cannot be read counts, because nobody knows."""
    end = b""
    try:
        with file.open("rb") as opened:
            while block := opened.read(_BLOCK):
                if secret.is_in(end + block):
                    return True
                # It may begin in one block and end in the next; no form of a character has more than six bytes.
                end = (end + block)[-6 * len(secret.text) :]
    except OSError:
        return True
    return False
