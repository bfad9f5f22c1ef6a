"""Which texts of the file of servers are secrets, as far as that can be told from where they stand.

Too few would be told to models and records; too many would be taken out of files that a model reads and writes back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_ordinary_header", "is_ordinary_variable", "names_secret", "secrets_in", "with_last_word"]

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_SECRET = re.compile(
    r"token|secret|passw|passphrase|credential|authoriz|cookie|jwt"
    r"|(?:key|pass|auth|[^a-z]pwd)s?(?![a-z])|(?<![a-z])pat(?![a-z])"
)

_ABOUT = re.compile(
    r"(?<![a-z])(?:max|min|num|limit|count|size|length|timeout|ttl)(?![a-z])"
    r"|(?<![a-z])(?:file|path|dir|type|mode|method|name|url|uri|endpoint)$"
)
# `MAX_TOKENS`, `TOKEN_FILE`: what is said about a secret.

_ASSIGNED = re.compile(r"([\w-]+)[ \t]*[=:][ \t]*(.+)", re.DOTALL)
_IN_URL = re.compile(r"://[^/?#\s:@]*:([^/?#\s@]+)@")
_IN_QUERY = re.compile(r"[?&;]([^=&;#\s]+)=([^&;#\s]+)")

_ORDINARY = re.compile(
    r"HOME|PWD|USER|LOGNAME|USERNAME|PATH|SHELL|TERM|LANG|TZ|TMPDIR|TEMP|TMP|APPDATA|LOCALAPPDATA|PROGRAMDATA"
    r"|PROGRAMFILES|USERPROFILE|SYSTEMROOT|SYSTEMDRIVE|WINDIR|HOMEDRIVE|HOMEPATH|COMPUTERNAME|HOSTNAME",
    re.IGNORECASE,
)


def names_secret(name: str) -> bool:
    """Tell whether what has this name, of a variable, an option or a parameter, is likely to be secret."""
    words = _HUMP.sub("_", name).lower()
    return _SECRET.search(words) is not None and _ABOUT.search(words) is None


def is_ordinary_variable(name: str) -> bool:
    """Tell whether every system has this variable of the environment, for what is no secret."""
    return _ORDINARY.fullmatch(name) is not None


def is_ordinary_header(name: str) -> bool:
    """Tell whether a header says how to talk, not who does."""
    return name.lower().startswith(("accept", "content-", "user-agent", "mcp-protocol-"))


def secrets_in(text: str) -> Iterator[str]:
    """Yield what a text gives to names that say that it is secret, alone or in a URL, and the passwords of URLs."""
    yield from (found[1] for found in _IN_URL.finditer(text))
    yield from (found[2] for found in _IN_QUERY.finditer(text) if names_secret(found[1]))
    assigned = _ASSIGNED.fullmatch(text)
    if assigned is not None and names_secret(assigned[1]):
        yield from with_last_word(assigned[2])


def with_last_word(value: str) -> tuple[str, str]:
    """Return a header's value as it stands and without its scheme, for who says it back may say it so."""
    return value, value.rpartition(" ")[2]
