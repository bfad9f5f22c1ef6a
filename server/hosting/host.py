"""The library being served: the views that callers have of it, and the reloads that keep it current."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import cached_property, partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
import anyio.to_thread

from server.capabilities import CAPABILITIES
from server.hosting.activation_texts import ActivationTexts
from server.hosting.activity import Activity
from server.hosting.background import Background, SearchPreparation, StoppedError
from server.hosting.catalog_log import ReloadFigures, log_change
from server.hosting.interpreter import left_alone, short_turns
from server.hosting.searches import SearchTurns, reranker_of
from server.hosting.usage import UsageCounts
from server.hosting.verified_reader import ATTEMPTS, VerifiedReader
from server.hosting.views import Views
from server.limits.pacing import Backoff
from server.requests import Records
from server.wire.params import InvalidRequestError
from skills_core.diagnostics import counted, one_line
from skills_core.errors import SkillChangedError
from skills_core.live.watcher import watch, watch_files

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.subscriptions import SubscriptionBus

    from server.capability import ServerPart
    from server.config.settings.model import Settings
    from server.hosting.views import View, ViewName, ViewRule
    from skills_core.catalog.catalog import Catalog
    from skills_core.live.library import Change, Library
    from skills_core.skills.skill import Skill, SkillFile

logger = logging.getLogger(__name__)

ServiceT = TypeVar("ServiceT")
_Answer = TypeVar("_Answer")


_FIRST_BURST_SECONDS = 0.1
# Without a request, after which watching begins.

_FIRST_BURST_AT_MOST = 2.0
# Seconds after which watching begins during a burst: what changes before is noticed only then.


_OPENING_SECONDS = 2.0
# For which requests for skills wait for a library that can be complete by then: most clients ask once for a list, so it
# should be whole. One that would take longer at the speed so far is served at once as far as it is loaded.

_FIRST_PART_SECONDS = 0.5
# Until the first part of a library that is being loaded is served; each further one takes twice as long.

_LONGEST_PART_SECONDS = 60.0
# What is loaded waits no longer than this to be served, unless serving it takes long.

_PART_PER_PUBLISHING = 5
# A part may take so many times as long as it takes to serve one (75 µs a skill), which is then a sixth of the time.


class Host:
    """A library being served.

    A library that is not complete is loaded by `load`, in parts, each of which is announced like a reload.

    A handler takes the `view` of its request in its first line and answers from it alone. `everything` is for what
    no client reads: the command line, the operator's endpoints and background work.

    A reload that fails, or that cannot read a file, is owed: `follow` retries it with backoff. `reloads` counts them.
    """

    def __init__(
        self,
        library: Library,
        settings: Settings,
        files: Sequence[Path] = (),
        usage: UsageCounts | None = None,
        backoff: Backoff | None = None,
        rule: ViewRule | None = None,
        records: Records | None = None,
    ) -> None:
        """Serve `library`, whose gates depend on `files`; nothing is watched before `follow` runs.

        `rule` decides what each caller sees; without one all callers see everything. `records` passes on what callers
        ask for.
        """
        self.library = library
        self.settings = settings
        self.usage = usage or UsageCounts()
        self._files = tuple(files)
        self.records = records or Records()
        self._services: dict[Callable[[Host], object], object] = {}
        for each in CAPABILITIES:
            if each.log_start is not None:
                each.log_start(settings)
        self.reranker = reranker_of(settings)
        used = self.usage.before
        self._views = Views(library, settings, rule, used=used, reranker=self.reranker)
        self.reader = VerifiedReader(library.sources, self.reload)
        self.background = Background()
        self.texts = ActivationTexts(self.view_called, self.reader.read_ahead, self.background)
        self.searches = SearchTurns()
        self._search_preparation = SearchPreparation(
            self._searched_views, self._views.regroup, self.background, lambda: library.is_complete
        )
        self._reloading = anyio.Lock()
        self._backoff = backoff or Backoff()
        self.reloads = ReloadFigures()
        self._failed = False
        self._unread: dict[Path, frozenset[str]] = {}
        self._owed = anyio.Event()
        self._listeners: list[Callable[[Change], None]] = []
        self.activity = Activity()
        self.records.observer = self.activity.record
        self.on_change(self.activity.add_change)
        self.report: Callable[[], None] = lambda: None
        self._opening_ends = monotonic() + _OPENING_SECONDS
        self._opening = anyio.Event() if self._is_soon_complete() else None
        self._note_unread()

    @property
    def is_opening(self) -> bool:
        """Whether a request for skills should wait for `opened`."""
        return self._opening is not None

    async def opened(self) -> None:
        """Wait until the library is complete, or it shows that it will not be before clients stop waiting."""
        if (opening := self._opening) is not None:
            await opening.wait()

    def _is_soon_complete(self) -> bool:
        progress = self.library.progress
        return progress is not None and monotonic() + progress.seconds_left < self._opening_ends

    async def load(self) -> None:
        """Load what the library has not loaded yet, and return when it is complete; report a failure, and retry.

        Raises:
            StoppedError: the server ends.
        """
        begin, seconds, pauses = monotonic(), _FIRST_PART_SECONDS, iter(self._backoff)
        while not self.library.is_complete:
            try:
                published = await self._load_part(seconds)
            except StoppedError:
                raise
            except Exception as error:
                logger.exception("the skills cannot be loaded; those loaded so far are served, and loading is retried")
                await self._take_over(partial(self.library.note_fault, f"{type(error).__name__}: {error}"))
                self._open()
                await anyio.sleep(next(pauses))
                continue
            if (progress := self.library.progress) is not None:
                count = counted(len(self.everything.skills), "skill")
                root = f"{progress.root}{', ' if progress.which else ''}{progress.which}"
                logger.info("%s loaded so far, about %.0f %% of %s", count, 100 * progress.share, root)
                if not self._is_soon_complete():
                    self._open()
            seconds = min(2 * seconds, max(_LONGEST_PART_SECONDS, _PART_PER_PUBLISHING * published))
        self._open()
        self._note_unread()
        self._search_preparation.refresh()
        logger.info("%s loaded after %.1f s", counted(len(self.everything.skills), "skill"), monotonic() - begin)

    async def _load_part(self, seconds: float) -> float:
        """Load a part for about so many seconds, and serve it; return how many seconds it took to serve it."""
        async with self._reloading:
            begin, loaded = monotonic(), self.library.seconds_loaded
            with _shielded():
                await self._take_over(partial(self.library.load, seconds, self.background.pause))
            return monotonic() - begin - (self.library.seconds_loaded - loaded)

    async def _open_later(self) -> None:
        await anyio.sleep(max(0, self._opening_ends - monotonic()))
        self._open()

    def _open(self) -> None:
        if self._opening is not None:
            self._opening.set()
            self._opening = None

    def service(self, kind: Callable[[Host], ServiceT]) -> ServiceT:
        """Return what `kind` makes of this host: the same object at each call."""
        if kind not in self._services:
            self._services[kind] = kind(self)
        return cast("ServiceT", self._services[kind])

    @cached_property
    def parts(self) -> tuple[ServerPart, ...]:
        """What capabilities do while the server runs."""
        made = (each.part(self) for each in CAPABILITIES if each.part is not None)
        return tuple(part for part in made if part is not None)

    @cached_property
    def http_parts(self) -> tuple[ServerPart, ...]:
        """What capabilities do beside that while the server runs over HTTP."""
        made = (each.http_part(self) for each in CAPABILITIES if each.http_part is not None)
        return tuple(part for part in made if part is not None)

    @property
    def everything(self) -> Catalog:
        """The whole current catalog. No handler of a client's request may read it."""
        return self.library.catalog

    @property
    def views_differ(self) -> bool:
        """Whether callers may see different skills."""
        return self._views.differ

    def view(self, ctx: ServerRequestContext[Any, Any]) -> View:
        """Return what the sender of a request sees of the current catalog."""
        return self._views.current(self._views.name_of(ctx))

    def view_called(self, name: ViewName) -> View:
        """Return a view of the current catalog by its name."""
        return self._views.current(name)

    def keep_search_ready(self, view: View) -> None:
        """Have the skills of a view indexed and compared in the background, from now on."""
        if self._views.want_search(view):
            self._search_preparation.refresh()

    def index_for_search(self) -> None:
        """Have the skills indexed in the background, as a search has left out some."""
        self._search_preparation.ask()

    def view_name(self, ctx: ServerRequestContext[Any, Any]) -> ViewName:
        """Return the name of a request's view, for what outlasts the request."""
        return self._views.name_of(ctx)

    def feed(self, view: ViewName) -> SubscriptionBus:
        """Return the bus on which the changes of a view are published."""
        return self._views.feed(view)

    def change_in(self, view: ViewName, change: Change) -> Change:
        """Return the part of a change that a view shows."""
        return self._views.change_in(view, change)

    async def read(self, uri: str, ctx: ServerRequestContext[Any, Any]) -> tuple[Skill, SkillFile, bytes]:
        """Return the file that a URI names in the view of a request, with its skill and its verified bytes.

        Raises:
            InvalidRequestError: no skill of the view has such a file, or it changes at every attempt to read it.
            FileUnavailableError: the system cannot read it now.
        """
        return await self.reader.read(uri, lambda: self.view(ctx).catalog)

    async def skill(self, ctx: ServerRequestContext[Any, Any], find: Callable[[Catalog], Skill]) -> tuple[View, Skill]:
        """Return the view of a request and the skill that `find` finds in its catalog, with the body in memory.

        Raises:
            InvalidRequestError: the skill changes at every attempt to read it.
            FileUnavailableError: the system cannot read it now.
        """

        async def held() -> tuple[View, Skill]:
            view = self.view(ctx)
            skill = find(view.catalog)
            await self.reader.hold_body(skill)
            return view, skill

        return await self.with_bodies(held)

    async def with_bodies(self, answer: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Return what `answer` returns, which reads bodies of skills in a current view; it must have no effects.

        If a file is not the one that was loaded, it is called again after a reload.

        Raises:
            InvalidRequestError: a skill changes at every attempt to read it.
        """
        why = ""
        for _ in range(ATTEMPTS):
            try:
                return await answer()
            except SkillChangedError as error:
                why = str(error)
                await self.reload(error.paths)
        raise InvalidRequestError(why)

    async def reload(self, changed: Iterable[Path] | None = None) -> Change:
        """Bring the catalog up to date with the disk, and announce the changes to the listeners of each view.

        Cancelling the caller takes effect at the end, so that the other clients are notified in any case.

        Raises:
            StoppedError: the server ends.
        """
        async with self._reloading:
            with _shielded():
                # After a failure, more than the changed paths has to be compared.
                paths, self._failed = (None if self._failed else changed), True
                begin = perf_counter()
                try:
                    # What is skipped may have changed although no skill has.
                    change = await self._take_over(partial(self.library.reload, paths, self.background.pause))
                    # A checkout changes thousands of skills: what the log says of them takes a second.
                    await anyio.to_thread.run_sync(log_change, change)
                    self._failed = False
                finally:
                    self.reloads = self.reloads.after(perf_counter() - begin, failed=self._failed)
                    self._note_unread()
                return change

    async def _take_over(self, load: Callable[[], Change]) -> Change:
        """Answer from what `load`, run in a thread, makes the catalog, and announce how that differs."""
        with left_alone(), self._views.held():
            change = await anyio.to_thread.run_sync(load)
            # A catalog of touched files is another one, and equal: views compare their own parts of it.
            if change.after is not change.before:
                await self._views.prepare(change)
        await self._views.announce()
        if change.after is not change.before:
            self._search_preparation.refresh()
        if change:
            self.texts.refresh(partial(self.change_in, change=change))
            for listener in self._listeners:
                listener(change)
        return change

    def on_change(self, listener: Callable[[Change], None]) -> None:
        """Call `listener`, which must not raise, after each reload that changed the catalog and was announced."""
        self._listeners.append(listener)

    async def try_reload(self, changed: Iterable[Path] | None = None) -> Change | None:
        """Reload for background callers; log a failure and return None."""
        try:
            return await self.reload(changed)
        except StoppedError:
            return None
        except Exception:
            logger.exception("the reload failed; the catalog is unchanged, and the reload will be retried")
            return None

    @property
    def _is_behind(self) -> bool:
        return self._failed or self.library.is_stale

    def _note_unread(self) -> None:
        """Log which files cannot be read if these changed, and schedule another reload."""
        unread = self.library.unread
        if unread and unread != self._unread:
            message = (
                "cannot read %d files or folders, such as %s; their last known state is kept, and they are retried"
            )
            root, paths = next(iter(unread.items()))
            logger.warning(message, sum(map(len, unread.values())), one_line(str(root / min(paths))))
        elif self._unread and not unread:
            logger.info("all files and folders are readable again")
        self._unread = unread
        if self._is_behind:
            self._owed.set()

    async def _retry(self) -> None:
        """Reload with backoff while a reload is owed."""
        while True:
            await self._owed.wait()
            for pause in self._backoff:
                if not self._is_behind:
                    break
                await anyio.sleep(pause)
                if self._is_behind:
                    await self.try_reload([])
            self._owed = anyio.Event()

    async def work(self) -> None:
        """Prepare what requests would wait for, until cancelled."""
        with short_turns():
            await self._work()

    async def _work(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._open_later)
            tasks.start_soon(self.usage.run)
            tasks.start_soon(self.texts.run)
            tasks.start_soon(self._search_preparation.run)
            tasks.start_soon(self.background.stop_at_end)

    def _searched_views(self) -> list[View]:
        return [self.view_called(name) for name in self._views.searched()]

    async def follow(self) -> None:
        """Reload at every change on disk, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._retry)
            tasks.start_soon(self._follow_files)
            # A client's first requests come in a burst. Registering the folders takes time of the processor.
            await self.background.wait(_FIRST_BURST_SECONDS, _FIRST_BURST_AT_MOST)
            watched: tuple[Path, ...] = ()
            # Links that are added or removed change which folders to watch.
            while watched != self.library.roots:
                watched = self.library.roots
                await self._follow(watched)

    async def _follow_files(self) -> None:
        """Reevaluate the gates when one of the files that they depend on changes."""
        async with aclosing(watch_files(self._files, self.settings.watch.options)) as changes:
            async for _ in changes:
                await self.try_reload([])

    async def _follow(self, roots: tuple[Path, ...]) -> None:
        """Reload at every change below `roots`, until other roots have to be watched."""
        async with aclosing(watch(roots, self.settings.watch.options)) as changes:
            async for changed in changes:
                await self.try_reload(changed)
                if self.library.roots != roots:
                    return


@contextmanager
def _shielded() -> Iterator[None]:
    """Defer the cancellation of the caller to the end of the block."""
    with anyio.CancelScope(shield=True):
        yield
