"""The part of a history that a caller sees who does not see all skills of the source.

A skill may lie in the folder of another one, one commit may change several skills, and a skill that the caller sees now
may have been another one before. So each version of a skill is judged by what it was: a version that the caller would
not have seen does not exist, as if the skill had been removed for that time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.history.commits import BEGINNING, BY_HAND, Cause
from skills_core.history.entries import Kind, is_within, parents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from skills_core.history.commits import HistoryCommit
    from skills_core.history.entries import Entry, State
    from skills_core.history.repository import Repository

__all__ = ["SeenPart", "Sees"]

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

    def of(self, state: State, *others: State) -> dict[str, Entry]:
        """Return the seen entries of a state; a skill that is hidden in one of the `others` is hidden here too."""
        if self.hides(state):
            return {}
        is_hidden = self._hidden_in(state, *others)
        return {path: entry for path, entry in state.items() if not is_hidden(path)}

    def rest(self, state: State, *others: State) -> dict[str, Entry]:
        """Return the entries of skills inside that are not seen, with the folders above them."""
        is_hidden = self._hidden_in(state, *others)
        kept = [path for path in state if is_hidden(path)]
        paths = {*kept, *chain.from_iterable(map(parents_of, kept))}
        return {path: entry for path, entry in state.items() if path in paths}

    def hides(self, state: State) -> bool:
        """Tell whether the skill, as it is in a state, is not seen."""
        return not self._shows(self.name, state)

    def revs(self, repository: Repository) -> Iterator[str]:
        """Yield the commits that changed what is seen, the newest first."""
        for rev in repository.revs(self.name or None):
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

    def _shows(self, skill: str, state: State) -> bool:
        """Tell whether a skill is seen as it is in a state; what is not there hides nothing."""
        if self.sees is None or not any(is_within(path, skill) for path in state):
            return True
        names = (skill, *(f"{skill}/{name}".lstrip("/") for name in (MAIN_FILE, MAIN_FILE_LOWERCASE)))
        entries = (state[name] for name in names if name in state)
        main = next((self.read(entry.blob) for entry in entries if entry.kind is Kind.FILE), None)
        return self.sees(skill, main)

    def _hidden_in(self, *states: State) -> Callable[[str], bool]:
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
