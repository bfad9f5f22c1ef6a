"""Searches: the index that they share, their turns, their scores as JSON, and the reranker in use."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.to_thread

from server.access import Principal, PrincipalKind, principal_of
from server.capabilities import CAPABILITIES
from server.config.files import ConfigurationError
from skills_core.selection.ranking import open_texts

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from server.config.settings.model import Settings
    from skills_core.live.library import Library
    from skills_core.selection.fusion import Reranker
    from skills_core.selection.policy import Match
    from skills_core.selection.postings import TextIndex


MAX_SEARCHES: Final = 16
"""Most searches at once: a reranker may be slow, and reads and reloads need worker threads too."""

MAX_OF_ONE: Final = 4
"""Most searches of one principal at once."""

MOST_INDEXED: Final = 1000
"""Most skills that a search indexes itself, which takes half a millisecond each; the others are in the background."""

_WORTH_A_FILE: Final = 500
# Skills from which on indexing them takes longer than opening a file.

_KEPT_SECONDS: Final = 30 * 86_400.0
# How long the file of a set of sources that is not served any more stays.

_Result = TypeVar("_Result")


def _forget_unused(used: Path) -> None:
    """Note that a file of searches is used, and remove those beside it that no start has used for long."""
    with suppress(OSError):
        os.utime(used)
    before = time.time() - _KEPT_SECONDS
    for path in used.parent.glob("search-*.db"):
        # Another process may remove it as well; one that has it open keeps what it has.
        with suppress(OSError):
            if path.lstat().st_mtime < before:
                for suffix in ("-wal", "-shm", ""):
                    Path(f"{path}{suffix}").unlink(missing_ok=True)


class SharedTexts:
    """The index of texts that the searches of all views share: in a file beside the index of skills, if it is worth it.

    Small libraries, and those without an index of skills, have theirs in memory. A library in which a client searches
    while it is loaded has a file, because it may become a large one.
    """

    def __init__(self, library: Library) -> None:
        """Open nothing yet."""
        self._library = library
        self._lock = Lock()

    @cached_property
    def _texts(self) -> TextIndex | None:
        path = self._path()
        if path is not None:
            _forget_unused(path)
        return open_texts(path)

    def _path(self) -> Path | None:
        index, catalog = self._library.index, self._library.catalog
        if index is None or (len(catalog.skills) < _WORTH_A_FILE and not catalog.is_loading):
            return None
        # Of its own for each set of sources: contents of others would seem to be of no skill any more.
        sources = "\0".join(sorted(str(source.root) for source in self._library.sources))
        digest = blake2b(sources.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        return index.path.with_name(f"search-{digest}.db")

    def index(self) -> TextIndex | None:
        """Return the index, None if SQLite has no full-text index; forget most texts if they are of no skill any more.

        It may wait for the disk, so call it in a worker thread.
        """
        with self._lock:
            texts, catalog = self._texts, self._library.catalog
            if texts is None or catalog.is_loading:
                return texts
            if len(texts) > max(_WORTH_A_FILE, 2 * len(catalog.skills)):
                texts.clear()
            return texts


@dataclass(slots=True)
class _Share:
    """The searches of one principal: a limit, and how many run or wait."""

    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(MAX_OF_ONE))
    count: int = 0


class SearchTurns:
    """The turns of the searches of one server: a bounded number runs at once, and of each principal fewer than that.

    A search may look at every skill. Without turns, a client that sends hundreds at once would make the others wait for
    all of them.
    """

    def __init__(self) -> None:
        self._all = anyio.CapacityLimiter(MAX_SEARCHES)
        self._shares: dict[tuple[str, str], _Share] = {}

    async def run(self, ctx: ServerRequestContext[Any, Any], search: Callable[[], _Result]) -> _Result:
        """Return the result of a search for a request, which runs in a worker thread in its turn."""
        async with self._turn_of(principal_of(ctx)):
            return await anyio.to_thread.run_sync(search, limiter=self._all)

    @asynccontextmanager
    async def _turn_of(self, principal: Principal) -> AsyncGenerator[None]:
        if principal.kind is PrincipalKind.LOCAL:
            # Without a login, all requests have the same principal.
            yield
            return
        key = principal.kind, principal.subject
        share = self._shares.setdefault(key, _Share())
        share.count += 1
        try:
            async with share.limiter:
                yield
        finally:
            share.count -= 1
            if not share.count:
                del self._shares[key]


def match_object(match: Match) -> dict[str, Any]:
    """Return the score of a match and the reasons for it."""
    return {
        "score": round(match.score, 4),
        "relative": round(match.relative, 4),
        "band": match.band.value,
        "weak": match.weak,
        "why": {field: list(words) for field, words in match.why},
    }


def reranker_of(settings: Settings, *, wait: bool = False) -> Reranker | None:
    """Return the second ranking that settings name or switch on; None if there is none.

    With `wait`, the first search waits until a model is loaded.

    Raises:
        ConfigurationError: the named one cannot be loaded.
    """
    named = load_reranker(settings.search.reranker)
    offered = (each.reranker(settings, wait) for each in CAPABILITIES if each.reranker is not None)
    return named or next((found for found in offered if found is not None), None)


def load_reranker(name: str | None) -> Reranker | None:
    """Import the reranker `package.module:name`; return None without a name.

    Raises:
        ConfigurationError: the module does not exist or fails to import, or the name is not callable.
    """
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        # Importing a third-party module may raise anything.
        raise ConfigurationError(f"reranker: {name}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ConfigurationError(f"reranker: {name}: expected a function of a query and skills, not {found!r:.100}")
    reranker: Reranker = found
    return reranker
