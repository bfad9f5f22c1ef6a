"""What all protocol surfaces stand on: the library, the snapshot of its catalog, and the way to renew it."""

from __future__ import annotations

import logging
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from mcp.server.subscriptions import InMemorySubscriptionBus

from server.config.settings import OptionalTool
from server.hosting.events import events_of
from server.hosting.reranker import load_reranker
from server.hosting.usage import Usage
from server.hosting.verified_reader import VerifiedReader
from server.listing.runs import what_is_missing
from server.listing.snapshot import Snapshot
from skills_core.diagnostics import one_line
from skills_core.library import Change
from skills_core.selection import SkillSearch
from skills_core.watcher import watch, watch_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from server.config.settings import Settings
    from skills_core.library import Library
    from skills_core.run.scripts.runner import ScriptSetup

__all__ = ["Host", "Pauses"]

logger = logging.getLogger(__name__)

MAX_SEARCHES = 16
"""Most searches at a time: a second opinion may be slow, and others want threads for files and reloads."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds between attempts to do what failed: twice as many each time, up to a limit."""

    first: float = 0.5
    limit: float = 60.0

    def __iter__(self) -> Iterator[float]:
        seconds = self.first
        while True:
            yield seconds
            seconds = min(2 * seconds, self.limit)


class Host:
    """A library being served. Handlers read `snapshot` once per request; all state behind it is derived.

    A reload that fails, or that cannot read something, is owed: `follow` tries it again after growing pauses.
    """

    def __init__(
        self,
        library: Library,
        settings: Settings,
        files: Sequence[Path] = (),
        usage: Usage | None = None,
        pauses: Pauses | None = None,
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
        self.search = SkillSearch(load_reranker(settings.search.reranker))
        self.searching = anyio.CapacityLimiter(MAX_SEARCHES)
        self._reloading = anyio.Lock()
        self._announced = self._snapshot
        self._pauses = pauses or Pauses()
        self._failed = False
        self._unread: dict[Path, frozenset[str]] = {}
        self._owed = anyio.Event()
        self._note_unread()

    @property
    def snapshot(self) -> Snapshot:
        """The lists of the current catalog."""
        catalog = self.library.catalog
        if self._snapshot.catalog is not catalog:
            budgets = self._snapshot.budgets
            self._snapshot = Snapshot(catalog, self.settings, self.usage.before, budgets, scripts=self.scripts)
        return self._snapshot

    async def reload(self, changed: Iterable[Path] | None = None) -> Change:
        """Bring the catalog up to date with the disk, and announce what that altered to all clients.

        A caller that is cancelled meanwhile is so at the end: the other clients hear of the change all the same.
        """
        async with self._reloading:
            with _uncancelled():
                # After a failure the changed paths are no longer all that was missed.
                paths, self._failed = (None if self._failed else changed), True
                try:
                    change = await anyio.to_thread.run_sync(self.library.reload, paths)
                    if change:
                        _log(change)
                    await self._announce()
                    self._failed = False
                finally:
                    self._note_unread()
                return change

    async def _announce(self) -> None:
        """Publish what differs from the catalog that was announced last."""
        before, after = self._announced, self.snapshot
        if after.catalog is not before.catalog:
            for event in events_of(before, after, Change.between(before.catalog, after.catalog)):
                await self.bus.publish(event)
            self._announced = after

    async def try_reload(self, changed: Iterable[Path] | None = None) -> Change | None:
        """Reload for background callers; log a failure and return None."""
        try:
            return await self.reload(changed)
        except Exception:
            logger.exception("the reload failed; the catalog stays as it was, and the reload is tried again")
            return None

    @property
    def _is_behind(self) -> bool:
        return self._failed or self.library.is_stale

    def _note_unread(self) -> None:
        """Log what cannot be read when that changes, and have the reload tried again."""
        unread = self.library.unread
        if unread and unread != self._unread:
            message = "cannot read %d files or folders now, such as %s; they stay as they were and are read again"
            root, paths = next(iter(unread.items()))
            logger.warning(message, sum(map(len, unread.values())), one_line(str(root / min(paths))))
        elif self._unread and not unread:
            logger.info("all files and folders can be read again")
        self._unread = unread
        if self._is_behind:
            self._owed.set()

    async def _retry(self) -> None:
        """Reload after growing pauses while a reload is owed."""
        while True:
            await self._owed.wait()
            for pause in self._pauses:
                if not self._is_behind:
                    break
                await anyio.sleep(pause)
                if self._is_behind:
                    await self.try_reload([])
            self._owed = anyio.Event()

    async def follow(self) -> None:
        """Reload at every change on the disk, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._retry)
            tasks.start_soon(self._follow_files)
            watched: tuple[Path, ...] = ()
            # Links that come and go change what there is to watch.
            while watched != self.library.roots:
                watched = self.library.roots
                await self._follow(watched)

    async def _follow_files(self) -> None:
        """Evaluate the gates again when one of their files changed."""
        async with aclosing(watch_files(self._files, self.settings.watch.options)) as changes:
            async for _ in changes:
                await self.try_reload([])

    async def _follow(self, roots: tuple[Path, ...]) -> None:
        """Reload at every change below `roots` until it is others that have to be watched."""
        async with aclosing(watch(roots, self.settings.watch.options)) as changes:
            async for changed in changes:
                await self.try_reload(changed)
                if self.library.roots != roots:
                    return


@contextmanager
def _uncancelled() -> Iterator[None]:
    """Let a caller that is cancelled go on to the end of the block."""
    with anyio.CancelScope(shield=True):
        yield


def _script_setup(settings: Settings) -> ScriptSetup | None:
    """Return how scripts are run, None where clients can run none."""
    if OptionalTool.RUN_SKILL_SCRIPT not in settings.tools.enabled:
        return None
    # What runs programs is loaded only where programs are run.
    from server.scripts.factory import offers_scripts, script_setup  # noqa: PLC0415

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
