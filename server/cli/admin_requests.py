"""Requests of commands to the admin endpoint of a running server."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from server.cli.console import EXIT_NO, EXIT_USAGE, fail
from server.config.machine import runtime_folders
from skills_core.diagnostics import Reason

if TYPE_CHECKING:
    import asyncio

    from server.wire.address import Address
    from server.wire.http_client import HttpAnswer

_ResultT = TypeVar("_ResultT")

_CONNECT_SECONDS: Final = 10.0
_SECONDS: Final = 310.0
# A reload from a slow disk takes long.

_MAX_BYTES: Final = 16 * 1024 * 1024
# The answer to a reload has the keys of all skills that changed.


def ask_by_socket(port: int, path: str, otherwise: str) -> HttpAnswer:
    """Post to a path on the admin socket of the server at `port`, and return the answer.

    If no such server of this user has a socket, the process exits with a message that says what to do `otherwise`.
    """
    from server.transport.admin_sockets import sockets_of
    from server.wire.address import Address
    from server.wire.http_client import HttpCallError

    if sys.platform == "win32":
        fail(f"Windows has no local control socket; {otherwise}", EXIT_USAGE)
    address = Address.parse(f"http://localhost{path}")
    answer = None
    for socket in sockets_of(runtime_folders(), port):
        try:
            answer = post(address, socket=socket)
            break
        except HttpCallError as error:
            if error.reason is not Reason.UNREACHABLE:
                fail(f"the connection to the server at port {port} broke: {error}", EXIT_NO)
    if answer is None:
        message = f"none of your servers on this machine has a socket for this port; see --port, or {otherwise}"
        fail(f"port {port}: {message}", EXIT_NO)
    return answer


def post(
    address: Address,
    *,
    socket: Path | None = None,
    proxy: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpAnswer:
    """Post to an address, by a Unix socket if one is given, and return the answer.

    Raises:
        HttpCallError: there is none.
    """
    from server.wire.http_client import HttpCalls

    async def send() -> HttpAnswer:
        async with HttpCalls(_SECONDS, _MAX_BYTES, connect_seconds=_CONNECT_SECONDS, socket=socket) as calls:
            return await calls.send("POST", address, proxy=proxy, headers=headers)

    return run_with_sockets(send)


def run_with_sockets(work: Callable[[], Awaitable[_ResultT]]) -> _ResultT:
    """Run `work`, which may read from a Unix socket, and return its result.

    anyio 4.16 completes the future of such a read when data or the end arrives, even if the read was cancelled in the
    same turn of the event loop (`_RawSocketMixin._wait_until_readable`). asyncio would print a traceback for it when a
    signal ends a command just as its server sends something. No data is lost: the read that wanted it was cancelled.
    """
    import asyncio

    import anyio

    async def guarded() -> _ResultT:
        asyncio.get_running_loop().set_exception_handler(_ignore_data_after_cancellation)
        return await work()

    return anyio.run(guarded)


def _ignore_data_after_cancellation(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    from asyncio import InvalidStateError

    if not isinstance(context.get("exception"), InvalidStateError):
        loop.default_exception_handler(context)
