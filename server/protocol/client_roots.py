"""The folders that a client's own tools read: the whole disk, its roots, or the folder in which it started the server.

Clients of the handshake era declare the capability `roots` and answer `roots/list`. The modern era has no request of
the server, so there, and until an answer comes, the working directory counts for clients that are known to start
servers in their workspace. All of this concerns stdio only, where the client has the server's disk.

An unknown client is most likely an agent with a shell on this machine, because it started the server
here: its model is told the folder, unless the client offers roots, which may be all that its tools read.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from server.clients.profile import ClientProfile, holds
from server.config.settings.skills import SkillFolder

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession


logger = logging.getLogger(__name__)

MAX_ROOTS = 100
"""Most roots of a client that are looked at."""

ANSWER_SECONDS = 10.0
"""Time for a client to answer, and for its disk to say what the roots are."""


class ClientRoots:
    """What is known of the folders of the client."""

    def __init__(self, *, local: bool, named: SkillFolder = SkillFolder.AUTO) -> None:
        """Know nothing yet; `local` tells that there is a single client, which shares the server's disk.

        `named` is the user's setting, which `NEVER` and `ALWAYS` put above what is known.
        """
        self._is_local = local = local and named is not SkillFolder.NEVER
        self._is_always = named is SkillFolder.ALWAYS
        self._started_in = _real_folders(["."]) if local else frozenset()
        self._roots: frozenset[Path] | None = None
        self._is_asking = False
        self._has_changed = False
        self._has_refused = False
        # A disk that does not answer holds up one thread at most.
        self._looking = anyio.CapacityLimiter(1)

    def reads_everywhere(self, client: ClientProfile, ctx: ServerRequestContext[Any, Any]) -> bool:
        """Tell whether the client's own tools read the whole disk of the server, as far as is known."""
        if not self._is_local or self._is_always or client.reads_disk is not None:
            return self._is_local and (self._is_always or holds(client.reads_disk))
        if self._roots is not None:
            return False
        return self._has_refused or not _offers_roots(ctx)

    def of(self, client: ClientProfile) -> frozenset[Path]:
        """Return the folders that the client's own tools read, without symbolic links."""
        if self._roots is not None:
            return self._roots
        return self._started_in if holds(client.starts_in_workspace) else frozenset()

    async def ask(self, ctx: ServerRequestContext[Any, Any], _: types.NotificationParams) -> None:
        """Ask the client for its roots, if it offers them; for `initialized` and for `roots/list_changed`.

        The SDK runs each notification's handler in a task of its connection, and cancels it at the end.
        """
        if not self._is_local or not _offers_roots(ctx):
            return
        self._has_changed = True
        if self._is_asking:
            return
        self._is_asking = True
        try:
            while self._has_changed:
                self._has_changed = False
                self._roots = await self._answer(ctx.session)
                self._has_refused = self._roots is None
        finally:
            self._is_asking = False

    async def _answer(self, session: ServerSession) -> frozenset[Path] | None:
        """Return the client's roots; None without a usable answer in time."""
        with anyio.move_on_after(ANSWER_SECONDS):
            try:
                answer = await session.send_request(types.ListRootsRequest(), _RootsAnswer)
            except (MCPError, ValidationError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                logger.debug("the client did not tell its roots: %s", type(error).__name__)
                return None
            uris = [root.uri for root in answer.roots[:MAX_ROOTS]]
            paths = [path for uri in uris if (path := path_of(uri)) is not None]
            return await anyio.to_thread.run_sync(_real_folders, paths, abandon_on_cancel=True, limiter=self._looking)
        logger.debug("the client did not tell its roots in %g seconds", ANSWER_SECONDS)
        return None


def _offers_roots(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Tell whether the sender of a message can be asked for its roots."""
    offered = ctx.session.client_capabilities
    is_handshake = ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
    return is_handshake and offered is not None and offered.roots is not None


class _Root(BaseModel):
    # Of any scheme: one that cannot be read must not spoil the others.
    uri: str


class _RootsAnswer(BaseModel):
    roots: list[_Root]


def _real_folders(paths: Iterable[str]) -> frozenset[Path]:
    """Return the folders among `paths` with links resolved."""
    return frozenset(folder for path in paths if (folder := _real_folder(path)) is not None)


def _real_folder(path: str) -> Path | None:
    try:
        real = os.path.realpath(path, strict=True)
        return Path(real) if Path(real).is_dir() else None
    except (OSError, ValueError):
        return None


MAX_FILE_URI = 4096
"""Characters of a URI that is read."""

_FILE = re.compile(r"file:(?://(?P<host>[^/\\]*))?(?P<path>.*)", re.IGNORECASE | re.DOTALL)
_DRIVE = re.compile(r"[A-Za-z][:|]")


def path_of(uri: str, *, windows: bool = os.name == "nt") -> str | None:
    r"""Return the absolute path that a URI names on this machine; None if it names none.

    On Windows, drives are understood as `/C:/`, `/c%3A/` and `/C|/`, with slashes of both kinds, and as the host
    (`file://C:\x`). A share of another machine is refused, because looking at it would contact that machine. `?` and
    `#` are taken as characters of the path: a path that was not encoded must not become one of its parents.
    """
    found = _FILE.fullmatch(uri) if len(uri) <= MAX_FILE_URI else None
    if found is None:
        return None
    host, path = found["host"] or "", found["path"]
    if windows and _DRIVE.fullmatch(host):
        host, path = "", f"/{host}{path}"
    if host.lower() not in {"", "localhost"} or not path.startswith("/"):
        return None
    try:
        decoded = os.fsdecode(unquote_to_bytes(path))
    except UnicodeError:
        return None
    if "\0" in decoded:
        return None
    return _windows_path(decoded) if windows else decoded


def _windows_path(path: str) -> str | None:
    drive, rest = path[1:3], path[3:]
    if not _DRIVE.fullmatch(drive) or not (rest == "" or rest[0] in "/\\"):
        return None
    return f"{drive[0]}:{rest or '/'}"
