"""Which extras this copy of skillserve has, how it was installed, and the command that installs it with another extra.

No command names the package alone: an index may have a stranger's package of that name. Commands name the folder, file
or repository that this copy came from, as the installer recorded it (PEP 610, `direct_url.json`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from skills_core.diagnostics import one_line

_MODULES: Final = {
    "run": ("pydantic_ai", "dbos", "jsonschema"),
    "history": ("dulwich",),
    "team": ("redis", "prometheus_client"),
    "embeddings": ("fastembed",),
}
"""The modules by which an extra is known to be installed."""

EXTRAS: Final = tuple(_MODULES)
_NAME: Final = "skillserve"
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://")
_MOST_CHARACTERS: Final = 1_000
"""Of an origin: a longer one is not repeated in a message."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What an installer has recorded of this copy, and where it is installed."""

    prefix: Path
    python: str
    installer: str = ""
    direct_url: str = ""
    """The text of `direct_url.json`; empty if the package came from an index, or is not installed."""


def missing_modules(extra: str) -> tuple[str, ...]:
    """Return the modules of an extra that are not installed, without importing one."""
    return tuple(each for each in _MODULES[extra] if not _is_there(each))


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        # A module that was imported, or replaced in `sys.modules`, may have no specification.
        return False


def extra_advice(extra: str) -> str:
    """Return how to install the extra into this copy: a command if its origin is known, otherwise words.

    The text continues a sentence, as in "Runs need the extra `run`; install it with: make -C /checkout install".
    """
    return _advice(_this_installation(), extra)


def advice_for(installation: Installation, extra: str) -> str:
    """Return how to install the extra into a copy that is described by `installation`."""
    command = _command(installation, extra)
    return f"install it with: {command}" if command else f"install skillserve again with the extra `{extra}`"


_advice = cache(advice_for)


@cache
def _this_installation() -> Installation:
    # Every command imports this module, and few of them need the advice.
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    try:
        found = distribution(_NAME)
        installer, direct_url = (found.read_text(name) or "" for name in ("INSTALLER", "direct_url.json"))
    except (PackageNotFoundError, OSError, UnicodeError):
        installer = direct_url = ""
    return Installation(Path(sys.prefix), sys.executable, installer.strip(), direct_url)


def _command(installation: Installation, extra: str) -> str:
    """Return the command, empty if the origin is unknown or no longer there."""
    origin = _origin(installation.direct_url)
    if not origin:
        return ""
    url, is_editable = origin
    folder_or_file = _existing(url)
    if folder_or_file is None and url.startswith(("file:", "git+file:")):
        # The folder is gone, or it is a repository on this disk, whose commit may be gone.
        return ""
    if folder_or_file and is_editable and _is_made_by_make(folder_or_file, installation.prefix):
        return _shown(["make", "-C", str(folder_or_file), "install"])
    extras = ",".join(sorted({extra, *_chosen_extras(installation.prefix)}))
    wanted = f"{folder_or_file}[{extras}]" if folder_or_file else f"{_NAME}[{extras}] @ {url}"
    words = [*_installer(installation), *(["--editable"] if is_editable else []), wanted]
    return _shown(words)


def _origin(direct_url: str) -> tuple[str, bool] | None:
    """Return the URL of the origin and whether the copy is editable, None if nothing usable is recorded."""
    try:
        recorded = json.loads(direct_url)
        url = recorded["url"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(url, str) or not _ADDRESS.match(url) or len(url) > _MOST_CHARACTERS:
        return None
    is_editable = _part(recorded, "dir_info").get("editable") is True
    system, commit = (_part(recorded, "vcs_info").get(key) for key in ("vcs", "commit_id"))
    if isinstance(system, str) and isinstance(commit, str):
        url = f"{system}+{url}@{commit}"
    subdirectory = recorded.get("subdirectory")
    if isinstance(subdirectory, str):
        url = f"{url}#subdirectory={subdirectory}"
    return (url, is_editable) if url == one_line(url) else None


def _part(recorded: dict[str, Any], key: str) -> dict[str, Any]:
    part = recorded.get(key)
    return part if isinstance(part, dict) else {}


def _existing(url: str) -> Path | None:
    """Return the folder or file of a `file:` URL, None if it is another URL or nothing is there."""
    from urllib.request import url2pathname  # noqa: PLC0415 - see `_this_installation`

    if not url.startswith("file:"):
        return None
    try:
        path = Path(url2pathname(urlsplit(url).path))
        return path if path.exists() else None
    except (OSError, ValueError):
        return None


def _is_made_by_make(checkout: Path, prefix: Path) -> bool:
    return os.name == "posix" and prefix == checkout / ".venv" and (checkout / "Makefile").is_file()


def _chosen_extras(prefix: Path) -> list[str]:
    """Return the extras that uv or pipx would remove, because they install anew what a command names."""
    import tomllib  # noqa: PLC0415 - see `_this_installation`

    try:
        if (receipt := prefix / "uv-receipt.toml").is_file():
            wanted = tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]["requirements"]
            extras = [extra for each in wanted if each["name"] == _NAME for extra in each.get("extras", ())]
        else:
            metadata = json.loads((prefix / "pipx_metadata.json").read_text(encoding="utf-8"))
            found = re.search(r"\[([^\]]*)\]", metadata["main_package"]["package_or_url"])
            extras = found[1].split(",") if found else []
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return [extra.strip() for extra in extras if re.fullmatch(r"\s*[a-z]+\s*", str(extra))]


def _installer(installation: Installation) -> list[str]:
    """Return the words of the command that installs into this environment."""
    prefix = installation.prefix
    if (prefix / "uv-receipt.toml").is_file():
        return ["uv", "tool", "install"]
    if (prefix / "pipx_metadata.json").is_file():
        return ["pipx", "install", "--force"]
    if installation.installer == "uv":
        if any((folder / "CACHEDIR.TAG").is_file() for folder in prefix.parents):
            # uvx made this environment in uv's cache, for one command.
            return ["uvx", "--from"]
        return ["uv", "pip", "install", "--python", installation.python]
    return [installation.python, "-m", "pip", "install"]


def _shown(words: list[str]) -> str:
    if words[0] == "uvx":
        words = [*words, _NAME]
    if os.name == "nt":
        from subprocess import list2cmdline  # noqa: PLC0415 - see `_this_installation`

        return list2cmdline(words)
    return shlex.join(words)
