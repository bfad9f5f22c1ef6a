"""Which sources have a history, and which skill of which history a name means."""

from __future__ import annotations

import functools
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from server.config.machine import state_home
from skills_core.diagnostics import printable
from skills_core.errors import HistoryError, did_you_mean, similar_to
from skills_core.history.store import existing_histories, has_history, open_history
from skills_core.history.work_trees import work_tree_of
from skills_core.skill import State
from skills_core.sources import Scope, Source, real_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.config.settings import HistorySettings
    from skills_core.catalog import Catalog
    from skills_core.history.history import History
    from skills_core.skill import Skill

__all__ = ["Histories", "Recorded"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A skill in a history: the root of its source, and its path there."""

    root: Path
    name: str


@dataclass(frozen=True, slots=True)
class Histories:
    """The histories of this user, and the settings that say of which sources they are kept."""

    settings: HistorySettings

    def covers(self, source: Source) -> bool:
        """Tell whether the settings name a source, and it is not in a repository of the user that they leave out."""
        named = source.scope in self.settings.scopes or source.root in self._directories
        return named and self._may_record(source.root)

    def open(self, root: Path) -> History:
        """Open the history of the source at `root`, and create it if there is none.

        Raises:
            HistoryError: see `open_history`.
        """
        return open_history(root, state_home(), work_trees=self.settings.work_trees)

    def covered(self, sources: Iterable[Source]) -> tuple[Path, ...]:
        """Return the roots of the sources that have a history by the settings and exist."""
        return tuple(source.root for source in sources if self.covers(source) and source.root.is_dir())

    def kept(self, catalog: Catalog) -> tuple[Path, ...]:
        """Return the roots of the sources that have a history already, or have one by the settings."""
        roots = dict.fromkeys(each.source.root for each in catalog.sources)
        covered = self.covered(each.source for each in catalog.sources)
        return tuple(root for root in roots if root in covered or has_history(root, state_home()))

    def root_of(self, path: Path, sources: Iterable[Source] = ()) -> Path | None:
        """Return the root of the innermost recorded source that contains a path; None if there is none.

        `sources` are the default and configured ones. A directory that was named on a command line counts once it has a
        history.
        """
        roots = [source.root for source in sources if source.scope in self.settings.scopes]
        roots += self._directories
        if Scope.EXPLICIT in self.settings.scopes:
            roots += [each.root for each in existing_histories(state_home())]
        place = real_path(path)
        found = [root for root in roots if place.is_relative_to(root)]
        root = max(found, key=lambda each: len(each.parts), default=None)
        return root if root is not None and self._may_record(root) else None

    def find(self, name: str, catalog: Catalog, *, removed: bool = True) -> Recorded:
        """Return the skill that a user or model names; with `removed`, one that only a history knows counts too.

        Raises:
            HistoryError: there is no such skill, no history is kept of its source, or several sources have one.
        """
        skills = [skill for skill in catalog.skills if name in {skill.key, skill.path, *skill.content.names}]
        active = [skill for skill in skills if skill.state is State.ACTIVE]
        located = [self._located(skill, catalog) for skill in active or skills]
        kept = list(dict.fromkeys(each for each in located if each is not None))
        if not skills and removed:
            kept = list(self._removed(name, catalog))
        if len(kept) == 1:
            return kept[0]
        if kept:
            choices = ", ".join(printable(str(each.root / each.name)) for each in kept)
            raise HistoryError(f"{name[:200]!r}: several skills have this name: {choices}; name its path in its source")
        if not skills:
            similar = did_you_mean(similar_to(name, (skill.key for skill in catalog.skills)))
            raise HistoryError(f"there is no skill {name[:200]!r}, and no history has one.{similar}")
        raise HistoryError(self._why_not_kept(skills[0]))

    def _located(self, skill: Skill, catalog: Catalog) -> Recorded | None:
        """Return a skill in the history of its source, or of a folder around it that has one."""
        root, place = skill.source.root, skill.content.place
        if root in self.kept(catalog):
            return Recorded(root, place)
        whole = root / place
        around = [each.root for each in existing_histories(state_home()) if whole.is_relative_to(each.root)]
        outer = max(around, key=lambda each: len(each.parts), default=None)
        return None if outer is None else Recorded(outer, whole.relative_to(outer).as_posix())

    def _removed(self, name: str, catalog: Catalog) -> Iterable[Recorded]:
        for root in dict.fromkeys(each.source.root for each in catalog.sources):
            if has_history(root, state_home()):
                with open_history(root, state_home(), work_trees=True) as history:
                    try:
                        yield Recorded(root, history.find(name))
                    except HistoryError as error:
                        logger.debug("%s", error)

    def _why_not_kept(self, skill: Skill) -> str:
        root = skill.source.root
        where = printable(str(root))
        if (place := work_tree_of(root)) is not None and not self.settings.work_trees:
            repository = printable(str(place))
            return (
                f"{where}: no history is kept of this source, because it is in your git repository {repository}. Use "
                "git there, or set history.work_trees to keep a history beside it"
            )
        return (
            f"{where}: no history is kept of this source. Name it, or its scope {skill.source.scope}, in the setting "
            "history.sources"
        )

    def _may_record(self, root: Path) -> bool:
        if self.settings.work_trees or (place := work_tree_of(root)) is None:
            return True
        _warn_of(root, place)
        return False

    @property
    def _directories(self) -> list[Path]:
        return [real_path(Path(os.path.abspath(each))) for each in self.settings.directories]  # noqa: PTH100 - `resolve` may raise


@functools.cache
def _warn_of(root: Path, place: Path) -> None:
    """Log once that a source which the settings name is left out."""
    message = "history: %s is in the git repository %s, so no history is kept of it; see history.work_trees"
    logger.warning(message, printable(str(root)), printable(str(place)))
