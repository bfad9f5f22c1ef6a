"""What all protocol surfaces stand on: the library, the snapshot of its catalog, and the way to renew it."""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from mcp.server.subscriptions import InMemorySubscriptionBus

from server.config import OptionalTool
from server.listing.runs import what_is_missing
from server.listing.snapshot import Snapshot
from server.notifications import events_of
from server.reading import VerifiedReader
from server.reranking import load_reranker
from server.usage import Usage
from skills_core.diagnostics import one_line
from skills_core.selection import SkillSearch
from skills_core.watcher import watch, watch_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from server.config import Settings
    from skills_core.library import Change, Library
    from skills_core.run.scripts.runner import ScriptSetup

__all__ = ["Host"]

logger = logging.getLogger(__name__)

MAX_SEARCHES = 16
"""Most searches at a time: a second opinion may be slow, and others want threads for files and reloads."""


class Host:
    """A library being served. Handlers read `snapshot` once per request; all state behind it is derived."""

    def __init__(
        self, library: Library, settings: Settings, files: Sequence[Path] = (), usage: Usage | None = None
    ) -> None:
        """Serve `library`, whose gates depend on `files`; nothing is watched before `follow` runs."""
        self.library = library
        self.settings = settings
        self.usage = usage or Usage()
        self._files = tuple(files)
        self.bus = InMemorySubscriptionBus()
        self.scripts = _script_setup(settings)
        for missing in what_is_missing(settings):
            logger.warning("%s", one_line(missing))
        self._snapshot = Snapshot(library.catalog, settings, self.usage.before, scripts=self.scripts)
        self.reader = VerifiedReader(library, self.reload)
        self.search = SkillSearch(load_reranker(settings.reranker))
        self.searching = anyio.CapacityLimiter(MAX_SEARCHES)
        self._reloading = anyio.Lock()

    @property
    def snapshot(self) -> Snapshot:
        """The lists of the current catalog."""
        catalog = self.library.catalog
        if self._snapshot.catalog is not catalog:
            rooms = self._snapshot.rooms
            self._snapshot = Snapshot(catalog, self.settings, self.usage.before, rooms, scripts=self.scripts)
        return self._snapshot

    async def reload(self, changed: Iterable[Path] | None = None) -> Change:
        """Bring the catalog up to date with the disk, and announce what that altered to all clients."""
        async with self._reloading:
            before = self.snapshot
            change = await anyio.to_thread.run_sync(self.library.reload, changed)
            if change:
                _log(change)
            if self.library.catalog is not before.catalog:
                for event in events_of(before, self.snapshot, change):
                    await self.bus.publish(event)
            return change

    async def try_reload(self, changed: Iterable[Path] | None = None) -> Change | None:
        """Reload for whoever cannot be told of a failure: it is logged, and None is returned."""
        try:
            return await self.reload(changed)
        except Exception:
            logger.exception("the reload failed; the catalog stays as it was until the next change")
            return None

    async def follow(self) -> None:
        """Reload at every change on the disk, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_files)
            watched: tuple[Path, ...] = ()
            # Links that come and go change what there is to watch.
            while watched != self.library.roots:
                watched = self.library.roots
                await self._follow(watched)

    async def _follow_files(self) -> None:
        """Evaluate the gates again when one of their files changed."""
        async with aclosing(watch_files(self._files, self.settings.watch_options)) as changes:
            async for _ in changes:
                await self.try_reload([])

    async def _follow(self, roots: tuple[Path, ...]) -> None:
        """Reload at every change below `roots` until it is others that have to be watched."""
        failed = False
        async with aclosing(watch(roots, self.settings.watch_options)) as changes:
            async for changed in changes:
                # After a failure nobody knows what was missed.
                failed = await self.try_reload(None if failed else changed) is None
                if self.library.roots != roots:
                    return


def _script_setup(settings: Settings) -> ScriptSetup | None:
    """Return how scripts are run, None where clients can run none."""
    if OptionalTool.RUN_SKILL_SCRIPT not in settings.tools:
        return None
    # What runs programs is loaded only where programs are run.
    from server.scripts.setup import offers_scripts, script_setup  # noqa: PLC0415

    setup = script_setup(settings)
    offered = offers_scripts(settings)
    logger.log(logging.INFO if offered else logging.WARNING, "scripts: %s", one_line(setup.statement))
    return setup if offered else None


def _log(change: Change) -> None:
    for skill in change.removed:
        logger.info("gone: %s (%s)", one_line(skill.key), one_line(skill.path))
    for skill in (*change.added, *(after for _, after in change.updated)):
        why = f": {skill.reason}: {skill.detail}" if skill.reason else ""
        logger.info("%s: %s %s%s", skill.state, one_line(skill.key), skill.digest or "", one_line(why))
