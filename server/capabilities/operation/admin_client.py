"""The client of the admin endpoint: ask a running server to reload, by its socket or over HTTP with the token."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, ValidationError

from server.capabilities.operation.admin_sockets import RELOAD_PATH
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from server.capabilities.remote.address import Address

__all__ = ["NoServerAnswerError", "Reloaded", "reload_at", "reload_by_socket"]

_TIMEOUT = httpx2.Timeout(10.0, read=300.0)
# A reload from a slow disk takes long.


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
    for path in sockets:
        try:
            with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), timeout=_TIMEOUT) as client:
                return _parse_response(client.post(f"http://localhost{RELOAD_PATH}"))
        except httpx2.ConnectError:
            continue
        except httpx2.HTTPError as error:
            raise NoServerAnswerError(
                f"the connection to the server at port {port} broke: {one_line(str(error))}"
            ) from None
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
        with httpx2.Client(transport=httpx2.HTTPTransport(proxy=address.proxy), timeout=_TIMEOUT) as client:
            return _parse_response(client.post(url, headers=headers))
    except httpx2.HTTPError as error:
        raise NoServerAnswerError(f"{address.shown} cannot be reached: {one_line(str(error))}") from None


_REFUSALS = {
    401: "the server does not accept this token; SKILLSERVE_ADMIN_TOKEN must be the same here and for the server",
    404: "the server has no admin endpoint over HTTP, or a proxy denies it; set SKILLSERVE_ADMIN_TOKEN where the server"
    " runs, or ask it there",
    421: "the server does not accept this host name; allow it where the server runs, with --allowed-host",
    500: "the reload failed and the skills are unchanged; the server's log says why",
}


def _parse_response(response: httpx2.Response) -> Reloaded:
    if response.status_code != httpx2.codes.OK:
        other = f"the server answered with HTTP {response.status_code}"
        raise NoServerAnswerError(_REFUSALS.get(response.status_code, other))
    try:
        return Reloaded.model_validate_json(response.content)
    except ValidationError:
        raise NoServerAnswerError("the server at this address is not skillserve") from None
