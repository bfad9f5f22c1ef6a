"""The address of an HTTP server: bound before the server is loaded, and only if it is protected."""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
from typing import TYPE_CHECKING

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from server.config.settings import HttpSettings, Settings

__all__ = ["AddressInUseError", "UnprotectedAddressError", "listen", "require_own_address", "require_protection"]


class AddressInUseError(SkillsError):
    """The server cannot listen on the address."""


class UnprotectedAddressError(SkillsError):
    """Other machines could use the server without a login."""


def require_protection(settings: Settings) -> None:
    """Require a login for an address that other machines may reach.

    Raises:
        UnprotectedAddressError: there is none, and `http.insecure` is not set.
    """
    if settings.login.required or settings.http.insecure or _is_loopback(settings.http.host):
        return
    message = (
        f"{settings.http.host} can be reached from other machines, and clients need no login; set login.tokens or"
        " login.issuer, listen on 127.0.0.1, or accept all clients with --insecure"
    )
    raise UnprotectedAddressError(message)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(settings: HttpSettings) -> socket.socket:
    """Bind the address.

    Raises:
        AddressInUseError: the port is taken, or the address does not belong to this machine.
    """
    try:
        listener = _bound(settings)
        try:
            listener.listen(2048)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise _unusable(settings, error) from None
    return listener


def require_own_address(settings: HttpSettings) -> None:
    """Require that this user may listen on the address; whether the port is taken, and host names, are not looked up.

    Raises:
        AddressInUseError: the address does not belong to this machine, or the port is for other users.
    """
    try:
        ipaddress.ip_address(settings.host)
    except ValueError:
        return
    try:
        _bound(settings).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise _unusable(settings, error) from None


def _bound(settings: HttpSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Without the explicit protocol asyncio leaves Nagle's algorithm on, and each response waits some 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":
            # On Windows, SO_REUSEADDR would share the address with any other process.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError:
        listener.close()
        raise
    return listener


def _unusable(settings: HttpSettings, error: OSError) -> AddressInUseError:
    reason = (error.strerror or str(error)).lower()
    message = f"cannot listen on {settings.host} port {settings.port}: {reason}; choose another with --port"
    return AddressInUseError(message)
