"""Paths in code, in one form: forward slashes, and `~` for the home folder however the code names it."""

from __future__ import annotations

import re

__all__ = ["normal_path"]

_HOME = re.compile(
    r"""^["']?(?:\$\{?HOME\}?|\$\(echo[ ]~\)|%USERPROFILE%|%HOMEPATH%|\$env:(?:USERPROFILE|HOME)
        |/root|/home/[^/\s]+|/Users/[^/\s]+|[A-Z]:/Users/[^/\s]+)(?=/|$)""",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_CONFIG = re.compile(r"^\$\{?XDG_CONFIG_HOME\}?", re.MULTILINE)
_SLASHES = re.compile(r"(?<!:)/(?:\.?/)+")


def normal_path(text: str) -> str:
    """Return a path, or several with one a line, in the form that the tables of the rules have."""
    text = text.replace("\\", "/").strip("\"'")
    text = _CONFIG.sub("~/.config", _HOME.sub("~", text))
    return _SLASHES.sub("/", text)
