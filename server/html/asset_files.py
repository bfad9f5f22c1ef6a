"""The style sheets and scripts of pages, and the digests by which a content security policy allows them inline."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files


@cache
def asset(package: str, name: str) -> str:
    """Return the text of a file in the folder `assets` of a package."""
    content = (files(package) / "assets" / name).read_text(encoding="utf-8")
    # The parser of HTML turns line ends into \n before the browser compares the digest.
    return content.replace("\r\n", "\n")


def base_style() -> str:
    """Return the style sheet that all pages begin with."""
    return asset("server.html", "base.css")


def source_digest(content: str) -> str:
    """Return the source expression of a content security policy for an inline style sheet or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}"
