"""What the operator is told of the catalog: log lines at the start and after each reload, and figures of the reloads.

Rule: agentskills.io asks for a line about each invalid and each shadowed skill. The operator reads the log, so that it
names every place.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason, one_line
from skills_core.skills.skill import Skill, State

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.live.library import Change

logger = logging.getLogger(__name__)

_MAX_PLACES = 10
_MAX_COLLISIONS = 50
# The places that one warning names, and the warnings about names at a time.


def log_catalog(catalog: Catalog) -> None:
    """Log the folders of a new catalog that cannot be used, and its skills that are not active."""
    for found in catalog.sources:
        if found.source.fault:
            logger.warning("%s", one_line(found.source.fault))
    _warn([*_collisions(catalog.named())])
    for skill in catalog.skills:
        # A collision names the skills that are shadowed.
        if skill.state not in {State.ACTIVE, State.SHADOWED}:
            _log_skill(skill)


def log_change(change: Change) -> None:
    """Log what a reload changed; a collision only if it is new."""
    _log_folders(change)
    changed = {skill.name for skill in (*change.added, *change.removed)}
    changed |= {skill.name for pair in change.updated for skill in pair}
    known = frozenset(_collisions(change.before.named(changed)))
    _warn([message for message in _collisions(change.after.named(changed)) if message not in known])
    for skill in change.removed:
        logger.info("removed: %s (%s)", one_line(skill.key), one_line(skill.path))
    for skill in (*change.added, *(after for _, after in change.updated)):
        _log_skill(skill)


def _log_folders(change: Change) -> None:
    """Log which folders of skills are gone, or there again: a share that is not mounted looks like removed skills."""
    existed = {found.source.root: found.exists for found in change.before.sources}
    for found in change.after.sources:
        root = found.source.root
        if found.source.optional or existed.get(root, found.exists) == found.exists:
            continue
        if found.exists:
            logger.info("the folder %s is there%s", one_line(str(root)), "" if found.source.fault else " again")
        else:
            why = "all of its skills are removed. If it is on a share, see whether that is mounted"
            logger.warning("the folder %s is gone: %s", one_line(str(root)), why)


def _warn(collisions: Sequence[str]) -> None:
    for message in collisions[:_MAX_COLLISIONS]:
        logger.warning("%s", message)
    if len(collisions) > _MAX_COLLISIONS:
        logger.warning("%d more names are those of several skills", len(collisions) - _MAX_COLLISIONS)


def _log_skill(skill: Skill) -> None:
    level = logging.WARNING if skill.state is State.INVALID else logging.INFO
    why = f": {skill.reason}: {skill.detail}" if skill.reason else ""
    logger.log(level, "%s: %s %s%s", skill.state, one_line(skill.key), skill.digest or "", one_line(why))


def _collisions(named: Iterable[tuple[str, Iterable[Skill]]]) -> Iterator[str]:
    for name, skills in named:
        group = [skill for skill in skills if _competes(skill)]
        if len(group) > 1:
            rest = len(group) - _MAX_PLACES
            places = [_described(skill) for skill in group[:_MAX_PLACES]] + ([f"{rest} more"] if rest > 0 else [])
            yield f"{len(group)} skills are named {one_line(name[:200])}: {', '.join(places)}"


def _competes(skill: Skill) -> bool:
    return skill.state is not State.INVALID and skill.reason is not Reason.UNTRUSTED


def _described(skill: Skill) -> str:
    place = one_line(str(skill.source.root / skill.content.place))
    return f"{place} (active as {one_line(skill.key)})" if skill.state is State.ACTIVE else f"{place} ({skill.state})"


def log_reload(change: Change) -> Change:
    """Log what a requested reload changed, and return it."""
    from server.hosting.status import change_summary  # noqa: PLC0415 - starts do without it

    logger.info("reloaded on request: %s", change_summary(change))
    return change


@dataclass(frozen=True, slots=True)
class ReloadFigures:
    """The reloads since the start: how many were done and failed, and the seconds that they took together."""

    done: int = 0
    failed: int = 0
    seconds: float = 0.0

    def after(self, seconds: float, *, failed: bool) -> ReloadFigures:
        """Return the figures after one more reload."""
        return ReloadFigures(self.done + (not failed), self.failed + failed, self.seconds + seconds)
