"""The address of another server: its URL, the headers to send, and the proxy to use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

_NO_URL = re.compile(r"[\x00-\x20\x7f]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?[ \t]*")


class AddressError(SkillsError):
    """A URL or header is invalid."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server's URL with the headers to send; `shown` is the URL without secrets, for messages and records."""

    url: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    shown: str = ""

    @classmethod
    def parse(cls, url: str, headers: Iterable[str] = ()) -> Self:
        """Parse a URL and headers of the form `Name: value`.

        Raises:
            AddressError: the URL or a header is invalid.
        """
        return cls(url, tuple(map(_header, headers)), _without_secrets(url))

    @property
    def proxy(self) -> str | None:
        """The proxy that this machine's settings prescribe for the URL; None if there is none."""
        parts = urlsplit(self.url)
        if proxy_bypass(parts.hostname or ""):
            return None
        proxies = getproxies()
        return proxies.get(parts.scheme) or proxies.get("all")


def _without_secrets(url: str) -> str:
    """Return the URL without user, password, query and fragment, any of which may contain a key."""
    expected = "expected the URL of an MCP server, such as https://example.com/mcp"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressError(f"{expected}: {one_line(str(error))}") from None
    if _NO_URL.search(url) or parts.scheme not in {"http", "https"} or not host:
        raise AddressError(f"{expected}, with http or https")
    name = f"[{host}]" if ":" in host else host
    return one_line(f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{parts.path}")


def _header(text: str) -> tuple[str, str]:
    parts = _HEADER.fullmatch(text)
    if parts is None:
        raise AddressError("--header: expected 'Name: value', in printable ASCII")
    return parts[1], parts[2] or ""
