"""The panel `History` of a skill's page: its newest versions, what each changed, and the way back to one of them.

Who goes back is first shown what that takes back, at an address of its own, and then sends a form. The form names the
difference that was shown, so that nothing else is taken back.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote

import anyio.from_thread

from server.capabilities.history.histories import Histories, is_shown, versions_seen
from server.capabilities.web.catalog_page import skill_address, skill_at
from server.capability import PageAction, PageParts, SkillPanel
from server.config.machine import state_home
from server.hosting.views import PerView
from server.html.differences import diff_lines
from skills_core.errors import HistoryError
from skills_core.history.store import has_history, is_available
from skills_core.history.versions import BEGINNING, BY_HAND, Cause

if TYPE_CHECKING:
    from pathlib import Path

    from server.capabilities.history.histories import RecordedSkill
    from server.capability import Visit
    from server.hosting.host import Host
    from server.hosting.views import View
    from skills_core.history.history import History, KnownRevs, Sees
    from skills_core.history.versions import HistoryCommit
    from skills_core.skills.skill import Skill

_KeptKey = TypeVar("_KeptKey")
_KeptValue = TypeVar("_KeptValue")

logger = logging.getLogger(__name__)

_MAX_VERSIONS: Final = 20
_MAX_DIFF: Final = 6_000
_MAX_CONFIRMED: Final = 50_000
# Characters of a diff in the list, and before a rollback.

_SECONDS: Final = 1.0
"""How long diffs of one skill are made; those of large files may take long, and the command makes them too."""

_KEPT: Final = 64
# Skills whose versions are kept, each with up to 120,000 characters.

_KEPT_REVS: Final = 1024
# Skills whose commits are kept: to find them again, all trees of the history would be read.

_REV_DIGITS: Final = 10

_CAUSES: Final[Mapping[str, tuple[str, str]]] = {
    Cause.INITIAL: ("none", "first recorded"),
    Cause.MANUAL: ("none", "edited by hand"),
    Cause.INIT: ("none", "created"),
    Cause.FIX: ("good", "fixed by validate"),
    Cause.DESCRIPTION: ("good", "new description"),
    Cause.IMPROVEMENT: ("good", "improvement"),
    Cause.ROLLBACK: ("mixed", "rollback"),
    Cause.SCHEDULE: ("none", "schedule"),
}


class ShownDiff(NamedTuple):
    """The lines of a diff, and how many characters are left out at its end."""

    lines: Sequence[tuple[str, str]]
    left_out: int = 0

    @classmethod
    def of(cls, text: str, most: int) -> ShownDiff:
        """Return a diff cut at the end of a line."""
        if len(text) <= most:
            return cls(diff_lines(text))
        end = text.rfind("\n", 0, most) + 1 or most
        return cls(diff_lines(text[:end]), len(text) - end)


class ShownVersion(NamedTuple):
    """A commit with the badge of its cause and its own words.

    `diff` is what it changed, None for the first one, or if that takes too long.
    """

    commit: HistoryCommit
    kind: str
    cause: str
    words: str
    diff: ShownDiff | None


class Confirmation(NamedTuple):
    """What a rollback to a commit takes back, with the digest of the whole difference; `fault` says why it cannot."""

    rev: str
    diff: ShownDiff = ShownDiff(())
    digest: str = ""
    fault: str = ""


_Key: TypeAlias = "tuple[Path, str, bool]"
_Versions: TypeAlias = "OrderedDict[_Key, tuple[tuple[str, ...], tuple[ShownVersion, ...]]]"
# By the root of a history, the skill there, and whether an operator looks: the commits, and what is shown of them.


@dataclass(frozen=True, slots=True)
class _OfView:
    """What is kept for a view that does not show everything: the names of its skills by history, and its versions."""

    names: dict[Path, frozenset[str]] = field(default_factory=dict)
    versions: _Versions = field(default_factory=OrderedDict)


class _Opened(NamedTuple):
    """The history of a skill, and what a visitor sees of it."""

    history: History
    found: RecordedSkill
    sees: Sees | None


class HistoryPanel:
    """The panel of one server, and the action of going back."""

    def __init__(self, host: Host) -> None:
        """Read nothing yet."""
        self._host = host
        self._kept: PerView[_OfView] = PerView(lambda _: _OfView())
        self._versions: _Versions = OrderedDict()
        self._revs: OrderedDict[tuple[Path, str], KnownRevs] = OrderedDict()

    def show(self, skill: Skill, visit: Visit) -> Mapping[str, Any] | None:
        """Return the values for the template, None if the skill has no history or the visitor sees no version."""
        if (found := _recorded(skill, visit.view)) is None:
            return None
        try:
            with Histories.of(visit.view.settings).open(found.root) as history:
                opened = _Opened(history, found, self._sees(found, visit.view))
                versions = self._shown(opened, visit)
                restore = visit.query.get("restore", "")
                confirmed = _confirmation(opened, restore) if restore and visit.may_change else None
        except HistoryError as error:
            # It names folders of the server.
            return {"fault": str(error)} if visit.is_operator else None
        if not versions:
            return None
        address = skill_address(skill)
        return {
            "fault": None,
            "versions": versions,
            "most": _MAX_VERSIONS,
            "address": address,
            "confirmed": confirmed,
        }

    def _sees(self, found: RecordedSkill, view: View) -> Sees | None:
        if view.shows is None:
            return None
        names = self._kept.of(view).names
        if found.root not in names:
            names[found.root] = Histories.of(view.settings).names_in(found.root, view.catalog)
        return versions_seen(found.root, found.source, view.shows, names[found.root])

    def _shown(self, opened: _Opened, visit: Visit) -> tuple[ShownVersion, ...]:
        """Return the newest versions, from memory as long as no commit changes the skill."""
        history, found, sees = opened
        revs = history.revs(found.name, self._revs.get((found.root, found.name)))
        _keep(self._revs, (found.root, found.name), revs, _KEPT_REVS)
        kept = self._versions if sees is None else self._kept.of(visit.view).versions
        key = (found.root, found.name, visit.is_operator)
        known = kept.get(key)
        if known is None or known[0] != revs.revs:
            known = revs.revs, tuple(_described(opened, revs.revs, evals=visit.is_operator))
        _keep(kept, key, known, _KEPT)
        return known[1]

    def rollback(self, form: Mapping[str, str], visit: Visit) -> str:
        """Restore a version of a skill; `form` has the skill's address, the commit, and the digest of what was shown.

        Raises:
            HistoryError: there is no such skill or commit, or the difference is another one by now.
        """
        key = unquote(form.get("skill", "").removeprefix("/page/skill/"), errors="surrogateescape")
        skill, rev = skill_at(visit.view.catalog, key), form.get("rev", "")
        found = None if skill is None else _recorded(skill, visit.view)
        if found is None:
            raise HistoryError("There is no such skill, or it has no history.")
        with Histories.of(visit.view.settings).open(found.root) as history:
            opened = _Opened(history, found, self._sees(found, visit.view))
            if _digest(_difference(opened, rev)) != form.get("difference"):
                raise HistoryError(
                    "The skill was changed after you were shown what the rollback takes back, so nothing was done. "
                    "Look at the difference again."
                )
            commit = history.rollback(found.name, rev, sees=opened.sees)
        if commit is None:
            return "The skill is as it was then, so there is nothing to restore."
        logger.info("rolled back on the page: %s", ", ".join(commit.skills))
        # The watcher would notice it too, but may be off.
        anyio.from_thread.run(self._host.reload)
        return f"The version of {rev[:_REV_DIGITS]} is restored. What it replaced stays in the history."


def page_parts(host: Host) -> PageParts:
    """Return the panel and the action."""
    panel = HistoryPanel(host)
    return PageParts(
        panels=(SkillPanel("history", "History", "history/history.html", panel.show),),
        actions=(PageAction("rollback", panel.rollback),),
    )


def _recorded(skill: Skill, view: View) -> RecordedSkill | None:
    """Return a skill in its history, None if there is none yet: the page begins no history."""
    if not is_available():
        return None
    found = Histories.of(view.settings).located(skill)
    return found if found is not None and has_history(found.root, state_home()) else None


def _keep(kept: OrderedDict[_KeptKey, _KeptValue], key: _KeptKey, value: _KeptValue, most: int) -> None:
    """Keep a value as the last one, and forget those that were kept longest ago."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > most:
        kept.pop(next(iter(kept)), None)


def _described(opened: _Opened, revs: tuple[str, ...], *, evals: bool) -> Iterator[ShownVersion]:
    history, found, sees = opened
    shows = partial(is_shown, found.name, evals=evals)
    end = monotonic() + _SECONDS
    for commit in history.commits(found.name, _MAX_VERSIONS, sees, revs):
        diff = None
        if commit.cause != Cause.INITIAL and monotonic() < end:
            diff = ShownDiff.of(history.change_of(found.name, commit.rev, shows, sees), _MAX_DIFF)
        kind, cause = _CAUSES.get(commit.cause, ("none", commit.cause))
        words = "" if commit.message in {BEGINNING, BY_HAND} else commit.message
        yield ShownVersion(commit, kind, cause, words, diff)


def _confirmation(opened: _Opened, rev: str) -> Confirmation:
    try:
        text = _difference(opened, rev)
    except HistoryError as error:
        return Confirmation(rev, fault=str(error))
    return Confirmation(rev, ShownDiff.of(text, _MAX_CONFIRMED), _digest(text))


def _difference(opened: _Opened, rev: str) -> str:
    return opened.history.diff(opened.found.name, rev, sees=opened.sees)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
