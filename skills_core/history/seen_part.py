"""The part of a history that a caller sees who does not see all skills of the source.

A skill may lie in the folder of another one, and one commit may change several skills.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from skills_core.disk.names import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.history.commits import BEGINNING, BY_HAND, Cause
from skills_core.history.entries import is_within, parents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from skills_core.history.commits import HistoryCommit
    from skills_core.history.entries import Entry, State
    from skills_core.history.repository import Repository

__all__ = ["SeenPart"]

_SINGLE_FILE = ".skill.md"
_MESSAGES: Mapping[str, str] = {Cause.INITIAL: BEGINNING, Cause.MANUAL: BY_HAND}
# What a commit says in any case, whatever it changed.


@dataclass(frozen=True, slots=True)
class SeenPart:
    """What is seen of the skill `name`, without the skills in its folder that `sees` does not accept.

    `sees` takes a skill's path in the source. Without it everything is seen.
    """

    name: str
    sees: Callable[[str], bool] | None = None

    def of(self, state: State, *others: State) -> dict[str, Entry]:
        """Return the seen entries of a state; what is a skill in one of the `others` is one in this state too."""
        is_hidden = self._hidden_in(state, *others)
        return {path: entry for path, entry in state.items() if not is_hidden(path)}

    def rest(self, state: State, *others: State) -> dict[str, Entry]:
        """Return the entries that are not seen, with the folders above them."""
        is_hidden = self._hidden_in(state, *others)
        kept = [path for path in state if is_hidden(path)]
        paths = {*kept, *chain.from_iterable(map(parents_of, kept))}
        return {path: entry for path, entry in state.items() if path in paths}

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

    def commit(self, commit: HistoryCommit) -> HistoryCommit:
        """Return what a commit says of seen skills; its own words may name the others."""
        if self.sees is None:
            return commit
        skills = tuple(filter(self.sees, commit.skills))
        if skills == commit.skills:
            return commit
        return replace(commit, skills=skills, message=_MESSAGES.get(commit.cause, commit.cause), trace_id=None)

    def _hidden_in(self, *states: State) -> Callable[[str], bool]:
        if self.sees is None:
            return lambda _: False
        inner = {skill for skill in _skills(chain.from_iterable(states)) if skill != self.name}
        hidden = {skill for skill in inner if is_within(skill, self.name) and not self.sees(skill)}
        seen = inner - hidden

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
