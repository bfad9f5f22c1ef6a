"""Names in `http.allowed_hosts` and `http.allowed_origins` that no request can match.

The SDK compares the headers with these texts as they are; `:*` at the end stands for any port, and nothing else stands
for anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.config.settings import HttpSettings

__all__ = ["host_fault", "name_faults", "origin_fault"]

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
