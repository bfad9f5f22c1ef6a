"""The address of an HTTP server, bound before skills are loaded and only if it is protected, and its names."""

from __future__ import annotations

import errno
import ipaddress
import logging
import re
import socket
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from server.capabilities import CAPABILITIES
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError, system_message

if TYPE_CHECKING:
    import asyncio

    from server.config.settings.model import Settings
    from server.config.settings.server import HttpSettings

logger = logging.getLogger(__name__)

# Addresses to listen on that a client cannot connect to.
_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "[::]"})  # noqa: S104 - compared, not bound


class AddressInUseError(SkillsError):
    """The server cannot listen on the address."""


class UnprotectedAddressError(SkillsError):
    """Other machines could use the server without a login."""


def requires_login(settings: Settings) -> bool:
    """Tell whether clients have to log in over HTTP."""
    return any(each.requires_login(settings) for each in CAPABILITIES if each.requires_login is not None)


def require_protection(settings: Settings) -> None:
    """Require a login for an address that other machines may reach.

    Raises:
        UnprotectedAddressError: there is none, and `http.insecure` is not set.
    """
    if requires_login(settings) or settings.http.insecure or is_loopback(settings.http.host):
        return
    message = (
        f"{settings.http.host} can be reached from other machines, and clients need no login; set login.tokens or"
        " login.issuer, listen on 127.0.0.1, or accept all clients with --insecure"
    )
    raise UnprotectedAddressError(message)


def is_loopback(host: str) -> bool:
    """Tell whether an address to listen on belongs to this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def local_origin(settings: HttpSettings, port: int) -> str:
    """Return the origin at which people on this machine reach a server that listens at `port`."""
    name = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{'localhost' if name in _ANY_ADDRESS else name}:{port}"


def checks_host(settings: HttpSettings) -> bool:
    """Tell whether requests with a foreign Host header are refused."""
    return bool(settings.allowed_hosts) or settings.host in {"127.0.0.1", "localhost", "::1"}


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


_HOST: Final = re.compile(r"([a-z0-9_.-]+|\[[0-9a-f:.]+\])(:(\*|[0-9]{1,5}))?")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://")
_ANY_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_USUAL_PORTS: Final = {"http://": ":80", "https://": ":443"}
_SHOWN: Final = 80


def name_faults(settings: HttpSettings) -> Iterator[tuple[str, int, str]]:
    """Yield what no request matches: the key in `http`, the number of the entry, and the entry with the reason."""
    for key, fault_of in (("allowed_hosts", host_fault), ("allowed_origins", origin_fault)):
        for number, name in enumerate(getattr(settings, key)):
            if fault := fault_of(name):
                yield key, number, f"{one_line(name[:_SHOWN])}: no request matches it: {fault}"


def host_fault(name: str) -> str | None:
    """Return why no `Host` header is equal to a name, None if one can be."""
    if _ANY_SCHEME.match(name):
        return "expected a host name without https://"
    if "*" in name.removesuffix(":*"):
        return "* stands for nothing in a host name, so name each host"
    if name != name.lower():
        return "clients send host names in small letters"
    if name.count(":") > 1 and not name.startswith("["):
        return "expected an IPv6 address in brackets"
    return None if _HOST.fullmatch(name) else "expected a host name, such as skills.example.com or localhost:8000"


def origin_fault(name: str) -> str | None:
    """Return why no `Origin` header is equal to a name, None if one can be."""
    if name == "null":  # of pages without an origin
        return None
    if not (scheme := _ANY_SCHEME.match(name)):
        return "expected a scheme and a host, such as https://skills.example.com"
    if not _SCHEME.match(name):
        return "browsers send origins in small letters"
    return _fault_after_scheme(scheme[0], name[scheme.end() :])


def _fault_after_scheme(scheme: str, host: str) -> str | None:
    if "/" in host:
        return "an origin ends with the host or the port, without a path and without / at the end"
    usual = _USUAL_PORTS.get(scheme)
    if usual is None:  # such as those of extensions
        return "* stands for nothing but any port" if "*" in host.removesuffix(":*") else None
    if host.endswith(usual):
        return f"browsers leave out {usual}, the usual port"
    return host_fault(host)


_QUIET_SECONDS = 60.0


class AcceptFaults:
    """An exception handler for event loops; it passes all other errors to the loop's default handler."""

    def __init__(self) -> None:
        self._quiet_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error that asyncio reports."""
        error = context.get("exception")
        if not isinstance(error, OSError) or not context.get("message", "").startswith("socket.accept()"):
            loop.default_exception_handler(context)
            return
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET_SECONDS
            message = "cannot accept connections (%s); if this happens often, raise the limit of open files"
            logger.warning(message, system_message(error))
