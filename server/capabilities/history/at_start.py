"""What a server does for histories: complete interrupted changes, record edits made meanwhile, and each one it sees.

Most servers keep no history, so nothing is imported before there is something to do.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from server.capabilities.history.settings import recorded_sources
from server.capability import ServerPart
from server.config.machine import state_home
from skills_core.diagnostics import one_line, printable
from skills_core.errors import HistoryError

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.disk.sources import Source
    from skills_core.live.library import Change

logger = logging.getLogger(__name__)

_MANY: Final = 20


def complete_interrupted_changes(sources: Iterable[Source]) -> None:
    """Complete the changes that a crash interrupted, before the skills are read."""
    if not (state_home() / "history").is_dir():
        return
    from skills_core.history.store import is_interrupted, open_history

    for root in {source.root for source in sources}:
        if is_interrupted(root, state_home()):
            try:
                # Even if the settings have changed since, a change is not left half done.
                with open_history(root, state_home(), work_trees=True) as history:
                    history.complete()
            except HistoryError as error:
                logger.warning("history: %s", error)
            except Exception:
                logger.exception("history: the interrupted change in %s", printable(str(root)))


class EditRecording(ServerPart):
    """Commits what has changed in sources with a history since the last commit, then each edit that a server sees."""

    def __init__(self, host: Host) -> None:
        """Record edits of the skills of `host`."""
        self._host = host

    async def run(self) -> None:
        """Record edits until cancelled; failures are logged."""
        settings, sources = self._host.settings, self._host.library.sources
        edits = _Edits({source.root: {""} for source in sources})
        self._host.on_change(edits.add)
        while True:
            places = edits.take()
            if any(each.sources for each in recorded_sources(settings)) or (state_home() / "history").is_dir():
                found = [source for source in sources if source.root in places]
                # A commit that is cut off by the end of the process leaves the history as it was.
                await anyio.to_thread.run_sync(partial(_record, found, settings, places), abandon_on_cancel=True)
            await edits.seen.wait()


@dataclass(slots=True)
class _Edits:
    """The skills that were edited since they were last recorded, by the roots of their sources."""

    places: dict[Path, set[str]] = field(default_factory=dict)
    seen: anyio.Event = field(default_factory=anyio.Event)

    def add(self, change: Change) -> None:
        """Note what a change is about."""
        for skill in (*change.added, *change.removed, *(new for _, new in change.updated)):
            self.places.setdefault(skill.source.root, set()).add(skill.content.place)
        self.seen.set()

    def take(self) -> dict[Path, set[str]]:
        """Return what was noted, and forget it."""
        places, self.places, self.seen = self.places, {}, anyio.Event()
        return places


def _record(sources: Iterable[Source], settings: Settings, places: Mapping[Path, Collection[str]]) -> None:
    from server.capabilities.history.histories import Histories

    histories = Histories.of(settings)
    for root in histories.at_start(sources):
        try:
            names = places[root]
            with histories.open(root) as history:
                # With many skills, the whole source is compared; for each skill by itself it would take longer.
                commit = history.record_manual_edits(sorted(names) if len(names) <= _MANY else [""])
        except HistoryError as error:
            logger.warning("history: %s", error)
            continue
        except Exception:
            # Serving goes on.
            logger.exception("history: the edits in %s", printable(str(root)))
            continue
        if commit is not None:
            skills = one_line(", ".join(commit.skills[:5]))
            logger.info("history: %s: %s (%s)", commit.rev[:10], commit.message, skills)
