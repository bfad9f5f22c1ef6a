"""Serve many clients over streamable HTTP, with `/health` beside the protocol's path."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.routing import Route

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

    from server.app import SkillServer
    from server.config import Settings
    from server.host import Host

__all__ = ["AddressInUseError", "build_app", "checks_host", "listen", "serve_http"]

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

_GRACE_SECONDS = 2
# Event streams that clients hold open are cut after this when the server stops.


class AddressInUseError(SkillsError):
    """The address cannot be listened on."""


def listen(settings: Settings) -> socket.socket:
    """Bind the address.

    Raises:
        AddressInUseError: the port is taken, or the address is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named, or asyncio does not switch off Nagle's algorithm, and each answer waits some 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":
            # There, to reuse an address is to share it with whoever has it.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        message = f"cannot listen on {settings.host} port {settings.port}: {reason}; choose another with --port"
        raise AddressInUseError(message) from None
    return listener


def build_app(server: SkillServer, host: Host) -> Starlette:
    """Return the ASGI application."""
    settings = host.settings

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "skills": len(host.library.catalog.active)})

    return server.streamable_http_app(
        streamable_http_path=settings.path,
        json_response=True,
        transport_security=_security(settings),
        custom_starlette_routes=[Route("/health", health)],
    )


def checks_host(settings: Settings) -> bool:
    """Tell whether requests are refused that name a host which is not ours."""
    return bool(settings.allowed_hosts) or settings.host in {"127.0.0.1", "localhost", "::1"}


def _security(settings: Settings) -> TransportSecuritySettings:
    """Guard against DNS rebinding: a browser may reach us only under names that are ours.

    Bound to other addresses than loopback without `allowed_hosts`, the names are not known and not checked.
    """
    if not checks_host(settings):
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = (*settings.allowed_hosts, *_LOOPBACK)
    hosts = [*names, *(f"{name}:*" for name in names)]
    origins = [*settings.allowed_origins, *(f"http://{host}" for host in hosts)]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


class _Uvicorn(uvicorn.Server):
    """Ends the event streams that clients hold open when it shuts down, so that it need not wait for them."""

    def __init__(self, config: uvicorn.Config, server: SkillServer) -> None:
        super().__init__(config)
        self._server = server

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._server.listening.close()
        await super().shutdown(sockets)


async def serve_http(server: SkillServer, host: Host, listener: socket.socket) -> None:
    """Serve on `listener` until the process is asked to stop."""
    config = uvicorn.Config(
        build_app(server, host),
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=_GRACE_SECONDS,
        server_header=False,
    )
    await _Uvicorn(config, server).serve(sockets=[listener])
