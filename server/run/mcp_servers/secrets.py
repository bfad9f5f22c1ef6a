"""Recognize secrets in the MCP servers' file by the names and places of values.

A missed secret would reach models and records; a false match would be redacted from files that a model edits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_secrets", "header_secrets", "is_ordinary_header", "is_ordinary_variable", "is_secret_name"]

_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_SECRET = re.compile(
    r"token|secret|passw|passphrase|credential|authoriz|cookie|jwt"
    r"|(?:key|pass|auth|[^a-z]pwd)s?(?![a-z])|(?<![a-z])pat(?![a-z])"
)

_METADATA = re.compile(
    r"(?<![a-z])(?:max|min|num|limit|count|size|length|timeout|ttl)(?![a-z])"
    r"|(?<![a-z])(?:file|path|dir|type|mode|method|name|url|uri|endpoint)$"
)
# Names of properties of a secret, such as `MAX_TOKENS` and `TOKEN_FILE`.

_ASSIGNED = re.compile(r"([\w-]+)[ \t]*[=:][ \t]*(.+)", re.DOTALL)
_IN_URL = re.compile(r"://[^/?#\s:@]*:([^/?#\s@]+)@")
_IN_QUERY = re.compile(r"[?&;]([^=&;#\s]+)=([^&;#\s]+)")

_ORDINARY = re.compile(
    r"HOME|PWD|USER|LOGNAME|USERNAME|PATH|SHELL|TERM|LANG|TZ|TMPDIR|TEMP|TMP|APPDATA|LOCALAPPDATA|PROGRAMDATA"
    r"|PROGRAMFILES|USERPROFILE|SYSTEMROOT|SYSTEMDRIVE|WINDIR|HOMEDRIVE|HOMEPATH|COMPUTERNAME|HOSTNAME",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Return whether a variable, option or parameter of this name probably holds a secret."""
    words = _CAMEL_CASE.sub("_", name).lower()
    return _SECRET.search(words) is not None and _METADATA.search(words) is None


def is_ordinary_variable(name: str) -> bool:
    """Return whether the environment variable is a standard one of the system that holds no secret."""
    return _ORDINARY.fullmatch(name) is not None


def is_ordinary_header(name: str) -> bool:
    """Return whether an HTTP header describes the protocol or content, and carries no credential."""
    return name.lower().startswith(("accept", "content-", "user-agent", "mcp-protocol-"))


def find_secrets(text: str) -> Iterator[str]:
    """Yield the secrets in a text: passwords in URLs, and values assigned to secret names."""
    yield from (found[1] for found in _IN_URL.finditer(text))
    yield from (found[2] for found in _IN_QUERY.finditer(text) if is_secret_name(found[1]))
    assigned = _ASSIGNED.fullmatch(text)
    if assigned is not None and is_secret_name(assigned[1]):
        yield from header_secrets(assigned[2])


def header_secrets(value: str) -> tuple[str, str]:
    """Return a header's value with and without its scheme: a server may repeat either."""
    return value, value.rpartition(" ")[2]
