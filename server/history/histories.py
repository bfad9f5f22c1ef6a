"""Which sources have a history, and which skill of which history a name means."""

from __future__ import annotations

import functools
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.config.machine import state_home
from skills_core.diagnostics import printable
from skills_core.errors import HistoryError, did_you_mean, similar_to
from skills_core.history.store import NO_EXTRA, existing_histories, has_history, is_available, open_history
from skills_core.history.work_trees import work_tree_of
from skills_core.skill import State
from skills_core.sources import Scope, Source, real_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.config.settings import HistorySettings, ImproveSettings, Settings
    from skills_core.catalog import Catalog
    from skills_core.history.history import History
    from skills_core.skill import Skill

__all__ = ["Histories", "Recorded"]

logger = logging.getLogger(__name__)

_MAX_CHOICES: Final = 5


@dataclass(frozen=True, slots=True)
class Recorded:
    """A skill in a history: the root of the history, its path there, and the source that it belongs to."""

    root: Path
    name: str
    source: Source = field(compare=False)


@dataclass(frozen=True, slots=True)
class Histories:
    """The histories of this user, and the settings that say of which sources they are kept.

    The settings name sources. Sources of the usual scopes are covered too, but their histories begin only when
    skillserve changes a skill, or the user asks for a history.
    """

    settings: HistorySettings
    improve: ImproveSettings

    @classmethod
    def of(cls, settings: Settings) -> Histories:
        """Return the histories by all settings."""
        return cls(settings.history, settings.improve)

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
        return None if is_available() else NO_EXTRA

    def open(self, root: Path) -> History:
        """Open the history of the source at `root`, and create it if there is none.

        Raises:
            HistoryError: see `open_history`.
        """
        return open_history(root, state_home(), work_trees=self.settings.work_trees)

    def at_start(self, sources: Iterable[Source]) -> tuple[Path, ...]:
        """Return the roots of the sources, edits of which are recorded when a server starts."""
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
            roots += [
                each.root for each in existing_histories(state_home()) if self._may_record(each.root, warns=False)
            ]
        found = [root for root in roots if place.is_relative_to(root)]
        return max(found, key=lambda each: len(each.parts), default=None)

    def find(self, name: str, catalog: Catalog, *, removed: bool = True) -> Recorded:
        """Return the skill that a user or model names; with `removed`, one that only a history knows counts too.

        Raises:
            HistoryError: there is no such skill, no history is kept of its source, or several sources have one.
        """
        skills = [skill for skill in catalog.skills if name in {skill.key, skill.path, *skill.content.names}]
        active = [skill for skill in skills if skill.state is State.ACTIVE]
        located = [self._located(skill) for skill in active or skills]
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
        located = (self._located(skill) for skill in catalog.skills)
        return frozenset(each.name for each in located if each is not None and each.root == root)

    def _located(self, skill: Skill) -> Recorded | None:
        """Return a skill in the history of its source, or of a folder around it that has one."""
        root, place = skill.source.root, skill.content.place
        if self.covers(skill.source) or has_history(root, state_home()):
            return Recorded(root, place, skill.source)
        whole = root / place
        around = [each.root for each in existing_histories(state_home()) if whole.is_relative_to(each.root)]
        outer = max(around, key=lambda each: len(each.parts), default=None)
        return None if outer is None else Recorded(outer, whole.relative_to(outer).as_posix(), skill.source)

    def _removed(self, name: str, catalog: Catalog) -> Iterable[Recorded]:
        for root, source in {each.source.root: each.source for each in catalog.sources}.items():
            if has_history(root, state_home()):
                with open_history(root, state_home(), work_trees=True) as history:
                    try:
                        yield Recorded(root, history.find(name), source)
                    except HistoryError as error:
                        logger.debug("%s", error)

    def _names(self, scope: Scope, root: Path) -> bool:
        """Tell whether the settings name a source."""
        improved = self.improve.scopes if self.settings.automatic else frozenset()
        return scope in self.settings.scopes | improved or root in self._directories

    def _why_not_kept(self, source: Source) -> str:
        root = source.root
        where = printable(str(root))
        if source.scope in {Scope.PLUGIN, Scope.BUNDLED}:
            return f"{where}: no history is kept of {source.scope} skills, because skillserve changes none of them"
        if source.scope in self.settings.usual_scopes and not is_available():
            return NO_EXTRA
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
    def _directories(self) -> list[Path]:
        improved = self.improve.directories if self.settings.automatic else ()
        named = (*self.settings.directories, *improved)
        return [real_path(Path(os.path.abspath(each))) for each in named]  # noqa: PTH100 - `resolve` may raise


@functools.cache
def _warn_of(root: Path, place: Path) -> None:
    """Log once that a source which the settings name is left out."""
    message = "history: %s is in the git repository %s, so no history is kept of it; see history.work_trees"
    logger.warning(message, printable(str(root)), printable(str(place)))
