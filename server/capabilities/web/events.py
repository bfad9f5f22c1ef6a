"""Tell open pages that what they show has changed, as server-sent events.

An event has no content: the page asks again for what it shows, as its visitor sees it then. So a page that is slow to
read misses nothing, and needs no queue: however much has changed since it read last, it receives one event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterator
from contextlib import contextmanager
from sys import maxsize
from typing import TYPE_CHECKING, Final

import anyio

from server.limits.descriptors import most_connections

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.hosting.views import ViewName
    from skills_core.live.library import Change

MAX_PAGES: Final = 1000
"""Most pages that are told of changes at a time; a quarter of the descriptors of the process, if these are fewer."""

ALL_KINDS: Final = "all"
"""Stands for activity of every kind."""

_HEARTBEAT_SECONDS: Final = 20.0
# Proxies close a connection without traffic, often after 60 seconds.

_LOADING_SECONDS: Final = 1.0
# Between two looks at how far the server is with loading its skills.

_PACE_SECONDS: Final = 1.0
# A busy server has hundreds of events a second, and a page asks for all that it shows after each.

_CHANGE: Final = b"event: change\ndata: {}\n\n"
_HEARTBEAT: Final = b": waiting\n\n"
_BEGIN: Final = b"retry: 1000\n\n" + _HEARTBEAT


class _OpenPage:
    """One open page: `news` is set when there is something to tell it. A page of activity has no view."""

    def __init__(self, view: ViewName | None) -> None:
        self.view = view
        self.news = anyio.Event()


class OpenPages:
    """The pages that are open in browsers, of one server."""

    def __init__(self, host: Host) -> None:
        """Tell pages of the changes of `host`."""
        self._host = host
        self._pages: set[_OpenPage] = set()
        self._streams = 0
        self._is_closing = False
        host.on_change(self._tell)

    @property
    def count(self) -> int:
        """How many pages are told of changes."""
        return len(self._pages)

    @contextmanager
    def stream_begun(self) -> Iterator[bool]:
        """Yield whether there is room for one more stream, which ends with the block."""
        has_room = not self._is_closing and self._streams < min(MAX_PAGES, most_connections() // 2)
        self._streams += has_room
        try:
            yield has_room
        finally:
            self._streams -= has_room

    def close(self) -> None:
        """End all streams; their pages connect again, maybe to another server."""
        self._is_closing = True
        for page in self._pages:
            page.news.set()

    async def stream(self, view: ViewName) -> AsyncIterator[bytes]:
        """Yield the stream of events for a page that shows a view, until the page or the server is closed."""
        with self._opened(view) as page:
            yield _BEGIN
            while not self._is_closing:
                # What the page shows next is how far that is, or that it is done.
                is_loading = not self._host.library.is_complete
                with anyio.move_on_after(_LOADING_SECONDS if is_loading else _HEARTBEAT_SECONDS):
                    await page.news.wait()
                has_news = is_loading or page.news.is_set()
                if page.news.is_set():
                    page.news = anyio.Event()
                if not self._is_closing:
                    yield _CHANGE if has_news else _HEARTBEAT

    async def stream_of_activity(self, kinds: Container[str]) -> AsyncIterator[bytes]:
        """Yield the stream of events for a page of an operator, which shows activity of some kinds."""
        with self._opened(None), self._host.activity.subscribed(after=maxsize) as subscription:
            yield _BEGIN
            while (news := await subscription.next(_HEARTBEAT_SECONDS)) is not None and not self._is_closing:
                is_told = any(ALL_KINDS in kinds or event.kind in kinds for event in news.events)
                yield _CHANGE if is_told else _HEARTBEAT
                if is_told:
                    await anyio.sleep(_PACE_SECONDS)

    @contextmanager
    def _opened(self, view: ViewName | None) -> Iterator[_OpenPage]:
        page = _OpenPage(view)
        self._pages.add(page)
        try:
            yield page
        finally:
            self._pages.discard(page)

    def _tell(self, change: Change) -> None:
        views = {page.view for page in self._pages if page.view is not None}
        changed = {view for view in views if self._host.change_in(view, change)}
        for page in self._pages:
            if page.view in changed:
                page.news.set()
