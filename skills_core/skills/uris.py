"""`skill://` URIs: `skill://<skill-path>/<file-path>`, every segment percent-encoded (SEP-2640, RFC 3986).

On most systems file names are bytes; a name that is not UTF-8 keeps its bytes when encoded and decoded.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from urllib.parse import quote_from_bytes, unquote_to_bytes

__all__ = ["SCHEME", "decode_path", "file_uri"]

SCHEME = "skill://"

_SAFE = "-._~"
# All but unreserved characters are encoded, even those that RFC 3986 allows in a segment: each file has one spelling,
# and the first segment is a valid reg-name.

_INVALID = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|\0")
# A path with NUL, or with an empty segment, `.` or `..`.

_MAX_URI = 32_768
# More than twice the longest path of any system with every byte encoded.


@lru_cache(maxsize=65_536)
def _encode(path: str) -> str:
    return quote_from_bytes(path.encode("utf-8", "surrogateescape"), safe=_SAFE + "/")


def file_uri(skill_path: str, path: str) -> str:
    """Return the URI of the file `path` of the skill at `skill_path`; both use `/` as separator.

    With an empty `path` this is the URI of the skill's folder, which ends with `/`.
    """
    return f"{SCHEME}{_encode(skill_path)}/{_encode(path)}"


def decode_path(uri: str) -> str | None:
    """Return the decoded path of a `skill://` URI, or None if the text is not one.

    Texts of more than 32 KiB, queries, fragments, empty, `.` and `..` segments, and encoded separators or NUL are
    refused, so that a path names at most one file.
    """
    if not uri.startswith(SCHEME) or len(uri) > _MAX_URI or "?" in uri or "#" in uri:
        return None
    path = encoded = uri[len(SCHEME) :]
    # Few URIs encode anything, and each read decodes one.
    if "%" in encoded or not encoded.isascii():
        try:
            path = unquote_to_bytes(encoded).decode("utf-8", "surrogateescape")
        except UnicodeError:
            return None
    has_encoded_separator = path.count("/") != encoded.count("/") or (os.sep != "/" and os.sep in path)
    return None if has_encoded_separator or _INVALID.search(path) else path
