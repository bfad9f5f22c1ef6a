"""`skill://` URIs: `skill://<skill-path>/<file-path>`, every segment percent-encoded (SEP-2640, RFC 3986).

File names are bytes on most systems; a name that is not UTF-8 keeps its bytes through the encoding and back.
"""

from __future__ import annotations

import os
from functools import lru_cache
from urllib.parse import quote_from_bytes, unquote_to_bytes

__all__ = ["SCHEME", "decode_path", "file_uri"]

SCHEME = "skill://"

_SAFE = "-._~"
# Characters that RFC 3986 allows in a path segment beside the unreserved ones stay encoded too: one spelling for
# each file, and a first segment that is a valid reg-name.


_MAX_URI = 32_768
# The longest path that systems know, with each byte encoded, is less than half of it.


@lru_cache(maxsize=65_536)
def _encode(path: str) -> str:
    return quote_from_bytes(path.encode("utf-8", "surrogateescape"), safe=_SAFE + "/")


def file_uri(skill_path: str, path: str) -> str:
    """Return the URI of the file `path` of the skill at `skill_path`; both are separated by `/`.

    With an empty `path` this is the URI of the skill's folder, with a `/` at its end.
    """
    return f"{SCHEME}{_encode(skill_path)}/{_encode(path)}"


def decode_path(uri: str) -> str | None:
    """Return the decoded path of a `skill://` URI, or None where the text is no such URI.

    Refused are texts of more than 32 KiB, queries, fragments, empty, `.` and `..` segments, and separators or NUL
    hidden in an encoding: what remains names at most one file.
    """
    if not uri.startswith(SCHEME) or len(uri) > _MAX_URI or "?" in uri or "#" in uri:
        return None
    try:
        segments = [
            unquote_to_bytes(segment).decode("utf-8", "surrogateescape") for segment in uri[len(SCHEME) :].split("/")
        ]
    except UnicodeError:
        return None
    return None if any(map(_is_no_name, segments)) else "/".join(segments)


def _is_no_name(segment: str) -> bool:
    return segment in {"", ".", ".."} or "/" in segment or "\0" in segment or (os.sep != "/" and os.sep in segment)
