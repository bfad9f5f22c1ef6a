"""The client of the admin endpoint: ask a running server to reload, by its socket or over HTTP with the token."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
from pydantic import BaseModel, ValidationError

from server.capabilities.operation.admin_sockets import RELOAD_PATH
from server.capabilities.remote.address import Address
from server.capabilities.remote.http_call import HttpAnswer, HttpCallError, HttpCalls
from skills_core.diagnostics import Reason
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


__all__ = ["NoServerAnswerError", "Reloaded", "reload_at", "reload_by_socket"]

_CONNECT_SECONDS: Final = 10.0
_SECONDS: Final = 310.0
# A reload from a slow disk takes long.

_MAX_BYTES: Final = 16 * 1024 * 1024
# The answer has the keys of all skills that changed.


class NoServerAnswerError(SkillsError):
    """The server cannot be reached or refuses; the message says why and what to do."""


class Reloaded(BaseModel):
    """What a reload changed: the keys of the skills, their counts, and how many skills are in each state."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    updated: tuple[str, ...]
    counts: dict[str, int]
    states: dict[str, int]


def reload_by_socket(sockets: Sequence[Path], port: int) -> Reloaded:
    """Ask the server at `port`, which may have any of `sockets`.

    Raises:
        NoServerAnswerError: there is no such server, or it refuses.
    """
    address = Address.parse(f"http://localhost{RELOAD_PATH}")
    for path in sockets:
        try:
            return _parse_response(_post(address, socket=path))
        except HttpCallError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise NoServerAnswerError(f"the connection to the server at port {port} broke: {error}") from None
    message = "none of your servers on this machine has a socket for this port; see --port, or use --url"
    raise NoServerAnswerError(f"port {port}: {message}")


def reload_at(address: Address, path: str, token: str) -> Reloaded:
    """Ask the server at `address`, which may end in the path of its MCP endpoint, `path`.

    Raises:
        NoServerAnswerError: the server cannot be reached, or refuses.
    """
    parts = urlsplit(address.url)
    base = parts.path.rstrip("/").removesuffix(path.rstrip("/"))
    url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{base}{RELOAD_PATH}"
    headers = {"Authorization": f"Bearer {token}"}
    try:
        return _parse_response(_post(Address.parse(url), proxy=address.proxy, headers=headers))
    except HttpCallError as error:
        told = "" if error.reason is Reason.TOO_LARGE else " cannot be reached"
        raise NoServerAnswerError(f"{address.shown}{told}: {error}") from None


def _post(
    address: Address,
    *,
    socket: Path | None = None,
    proxy: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpAnswer:
    async def post() -> HttpAnswer:
        async with HttpCalls(_SECONDS, _MAX_BYTES, connect_seconds=_CONNECT_SECONDS, socket=socket) as calls:
            return await calls.send("POST", address, proxy=proxy, headers=headers)

    return anyio.run(post)


_REFUSALS = {
    401: "the server does not accept this token; SKILLSERVE_ADMIN_TOKEN must be the same here and for the server",
    404: "the server has no admin endpoint over HTTP, or a proxy denies it; set SKILLSERVE_ADMIN_TOKEN where the server"
    " runs, or ask it there",
    421: "the server does not accept this host name; allow it where the server runs, with --allowed-host",
    500: "the reload failed and the skills are unchanged; the server's log says why",
}


def _parse_response(answer: HttpAnswer) -> Reloaded:
    if answer.status != HTTPStatus.OK:
        other = f"the server answered with HTTP {answer.status}"
        raise NoServerAnswerError(_REFUSALS.get(answer.status, other))
    try:
        return Reloaded.model_validate_json(answer.body)
    except ValidationError:
        raise NoServerAnswerError("the server at this address is not skillserve") from None
