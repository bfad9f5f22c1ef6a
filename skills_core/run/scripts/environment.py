"""The whole environment of a script: a stated list, what settings name, and what the user set for its skill."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["HIDDEN_PREFIX", "installer_environment", "script_environment"]

HIDDEN_PREFIX = "SKILLSERVE_"
"""How the names of the server's own settings begin, tokens among them: no script ever gets one."""

_LOCALE = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
_WINDOWS = ("COMSPEC", "NUMBER_OF_PROCESSORS", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT")
_SYSTEM = (*_LOCALE, *_WINDOWS)
# What tells of the machine, and of nobody's secrets. Without some of it nothing starts on Windows.

_INSTALLER = ("APPDATA", "HOME", "LOCALAPPDATA", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TEMP", "TMP", "TMPDIR")
_INSTALLER_BEGINNINGS = ("UV_", "XDG_")
_INSTALLER_ENDS = ("_PROXY", "_proxy")
# What uv is configured by.

_FIXED = {
    "NO_COLOR": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONUTF8": "1",
}


def script_environment(
    host: Mapping[str, str],
    *,
    search_path: str,
    skill: Path,
    scratch: Path,
    passed: Iterable[str] = (),
    variables: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment of a script.

    `host` is that of the server, of which the names that are `passed` are kept. `skill` and `scratch` are where the
    script sees its skill's files and a folder of its own, `variables` are the user's for this skill, and win.
    """
    environment = {"LANG": "C.UTF-8", **_kept(host, _SYSTEM), **_FIXED, "PATH": search_path, "SKILL_DIR": str(skill)}
    environment |= dict.fromkeys(("HOME", "USERPROFILE", "TEMP", "TMP", "TMPDIR"), str(scratch))
    environment |= _kept(host, passed)
    environment |= variables or {}
    return {name: value for name, value in environment.items() if not name.upper().startswith(HIDDEN_PREFIX)}


def installer_environment(host: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of uv, which may use the network and its cache in the user's home."""
    names = [name for name in host if name.startswith(_INSTALLER_BEGINNINGS) or name.endswith(_INSTALLER_ENDS)]
    return _kept(host, (*_SYSTEM, *_INSTALLER, *names))


def _kept(host: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: host[name] for name in names if name in host}
