"""The environment of a script: its folders, and its variables.

The variables are a fixed list, those named in settings, and the user's for the script's skill.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

SCHEDULED_RUN = "SKILLSERVE_SCHEDULED_RUN"
"""The variable that tells a program that it belongs to the run of a schedule, which makes no schedules."""

HIDDEN_PREFIX = "SKILLSERVE_"
"""The prefix of the server's own settings, tokens among them, which no script ever gets."""

_LOCALE = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
_WINDOWS = ("COMSPEC", "NUMBER_OF_PROCESSORS", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT")
_SYSTEM = (*_LOCALE, *_WINDOWS)
# Facts about the machine, no secrets. On Windows, nothing starts without some of these.

_INSTALLER = ("PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TEMP", "TMP", "TMPDIR")
_INSTALLER_ENDS = ("_PROXY", "_proxy")
# For finding interpreters and reaching an index, without credentials.

_INSTALLER_FIXED = {
    "NETRC": os.devnull,
    "NO_COLOR": "1",
    "UV_KEYRING_PROVIDER": "disabled",
    "UV_NO_CONFIG": "1",
    "UV_NO_PROGRESS": "1",
}

_FIXED = {
    "NO_COLOR": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONUTF8": "1",
}


class WorkingDirectory(StrEnum):
    """The folder in which a script starts."""

    SKILL = "skill"
    WORKSPACE = "workspace"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFolders:
    """The folders of a script, at the paths at which it sees them.

    `skill` has the files of its skill, and `scratch` is an empty folder that is removed after the call. `workspace` is
    the user's folder, None if the settings grant none.
    """

    skill: Path
    scratch: Path
    workspace: Path | None = None

    def find(self, directory: WorkingDirectory) -> Path:
        """Return the path of a folder; without a workspace, the skill's folder takes its place."""
        if directory is WorkingDirectory.SCRATCH:
            return self.scratch
        return (self.workspace if directory is WorkingDirectory.WORKSPACE else None) or self.skill

    @property
    def variables(self) -> dict[str, str]:
        """The variables that name the folders."""
        named = {"SKILL_DIR": self.skill, "SCRATCH_DIR": self.scratch, "WORKSPACE_DIR": self.workspace}
        named |= dict.fromkeys(("HOME", "USERPROFILE", "TEMP", "TMP", "TMPDIR"), self.scratch)
        return {name: str(path) for name, path in named.items() if path is not None}


def script_environment(
    host: Mapping[str, str],
    *,
    search_path: str,
    folders: ScriptFolders,
    passed: Iterable[str] = (),
    variables: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment of a script.

    `host` is the server's environment, of which the names in `passed` are kept. `variables` are the user's for this
    skill, and override.
    """
    environment = {"LANG": "C.UTF-8", **_select(host, _SYSTEM), **_FIXED, "PATH": search_path, **folders.variables}
    environment |= _select(host, passed)
    environment |= variables or {}
    shown = {name: value for name, value in environment.items() if not name.upper().startswith(HIDDEN_PREFIX)}
    return shown | _select(host, (SCHEDULED_RUN,))


def installer_environment(
    host: Mapping[str, str], *, home: Path, cache: Path, index: str | None = None, passed: Iterable[str] = ()
) -> dict[str, str]:
    """Return the environment of uv, which uses the network without the user's credentials and configuration.

    `cache` is the folder for uv's cache, with a separate home, so that uv finds no `.netrc` and no stored login. Of the
    user's `home` it uses the Pythons that uv installed. `index` is the package index, uv's default if None. Of `host`,
    the environment of this process, the names in `passed` are kept unchanged, and override.
    """
    own = str(cache / "home")
    folders = dict.fromkeys(("APPDATA", "HOME", "LOCALAPPDATA", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), own)
    environment = _select(host, (*_SYSTEM, *_INSTALLER, *(name for name in host if name.endswith(_INSTALLER_ENDS))))
    environment |= {**_INSTALLER_FIXED, **folders, "UV_CREDENTIALS_DIR": own, "UV_CACHE_DIR": str(cache / "uv")}
    environment["UV_PYTHON_INSTALL_DIR"] = str(_data_home(host, home) / "uv" / "python")
    if index is not None:
        environment["UV_DEFAULT_INDEX"] = index
    return environment | _select(host, passed)


def _data_home(host: Mapping[str, str], home: Path) -> Path:
    if sys.platform == "win32":
        return Path(host.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(host.get("XDG_DATA_HOME") or home / ".local" / "share")


def _select(host: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: host[name] for name in names if name in host}
