"""Read `file:` URIs as clients write them: RFC 8089, and what they make of it."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote_to_bytes

__all__ = ["MAX_FILE_URI", "path_of"]

MAX_FILE_URI = 4096
"""Characters of a URI that is read."""

_FILE = re.compile(r"file:(?://(?P<host>[^/\\]*))?(?P<path>.*)", re.IGNORECASE | re.DOTALL)
_DRIVE = re.compile(r"[A-Za-z][:|]")


def path_of(uri: str, *, windows: bool = os.name == "nt") -> str | None:
    r"""Return the absolute path that a URI names on this machine; None if it names none.

    On Windows, drives are understood as `/C:/`, `/c%3A/` and `/C|/`, with slashes of both kinds, and as the host
    (`file://C:\x`). A share of another machine is refused, because looking at it would contact that machine. `?` and
    `#` are taken as characters of the path: a path that was not encoded must not become one of its parents.
    """
    found = _FILE.fullmatch(uri) if len(uri) <= MAX_FILE_URI else None
    if found is None:
        return None
    host, path = found["host"] or "", found["path"]
    if windows and _DRIVE.fullmatch(host):
        host, path = "", f"/{host}{path}"
    if host.lower() not in {"", "localhost"} or not path.startswith("/"):
        return None
    try:
        decoded = os.fsdecode(unquote_to_bytes(path))
    except UnicodeError:
        return None
    if "\0" in decoded:
        return None
    return _windows_path(decoded) if windows else decoded


def _windows_path(path: str) -> str | None:
    drive, rest = path[1:3], path[3:]
    if not _DRIVE.fullmatch(drive) or not (rest == "" or rest[0] in "/\\"):
        return None
    return f"{drive[0]}:{rest or '/'}"
