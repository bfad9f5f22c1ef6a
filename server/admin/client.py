"""Ask a running server to reload: by its socket, or over HTTP with the token."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, ValidationError

from server.admin.paths import RELOAD_PATH
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from server.remote.address import Address

__all__ = ["NoServerAnswerError", "Reloaded", "reload_at", "reload_by_socket"]

_TIMEOUT = httpx2.Timeout(10.0, read=300.0)
# Comparing everything with a slow disk takes its time.


class NoServerAnswerError(SkillsError):
    """The server is not there, or says no; the message says which, and what to do."""


class Reloaded(BaseModel):
    """What a reload altered, by the skills' keys, how many these are, and how many skills have which state now."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    updated: tuple[str, ...]
    counts: dict[str, int]
    states: dict[str, int]


def reload_by_socket(sockets: Sequence[Path], port: int) -> Reloaded:
    """Ask the server at `port`, which may have any of `sockets`.

    Raises:
        NoServerAnswerError: there is none, or it says no.
    """
    for path in sockets:
        try:
            with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), timeout=_TIMEOUT) as client:
                return _understood(client.post(f"http://localhost{RELOAD_PATH}"))
        except httpx2.ConnectError:
            continue
        except httpx2.HTTPError as error:
            raise NoServerAnswerError(f"the server at port {port} broke off: {one_line(str(error))}") from None
    message = "no server of yours on this machine has its socket for this port; see --port, or name one with --url"
    raise NoServerAnswerError(f"port {port}: {message}")


def reload_at(address: Address, path: str, token: str) -> Reloaded:
    """Ask the server at `address`, which may be that of its protocol, at `path`.

    Raises:
        NoServerAnswerError: it is not there, or says no.
    """
    parts = urlsplit(address.url)
    base = parts.path.rstrip("/").removesuffix(path.rstrip("/"))
    url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{base}{RELOAD_PATH}"
    headers = {"Authorization": f"Bearer {token}"}
    try:
        with httpx2.Client(transport=httpx2.HTTPTransport(proxy=address.proxy), timeout=_TIMEOUT) as client:
            return _understood(client.post(url, headers=headers))
    except httpx2.HTTPError as error:
        raise NoServerAnswerError(f"{address.shown} cannot be reached: {one_line(str(error))}") from None


_REFUSALS = {
    401: "the server does not take this token; SKILLSERVE_ADMIN_TOKEN must be the same as where it runs",
    404: "nothing can be asked of this server over HTTP; it needs a token too, in SKILLSERVE_ADMIN_TOKEN",
    421: "the server is not called so; name this host where it runs, with --allowed-host",
    500: "the reload failed, and the skills stay as they were; the server's log says why",
}


def _understood(response: httpx2.Response) -> Reloaded:
    if response.status_code != httpx2.codes.OK:
        other = f"the server answers with HTTP {response.status_code}"
        raise NoServerAnswerError(_REFUSALS.get(response.status_code, other))
    try:
        return Reloaded.model_validate_json(response.content)
    except ValidationError:
        raise NoServerAnswerError("what answers there is no skillserve") from None
