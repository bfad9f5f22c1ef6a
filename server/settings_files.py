"""Files of settings: where the user's own is, and what one says, unchecked but for its form."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from skills_core.disk.bounded import read_bounded
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FILE_NAME", "ConfigurationError", "own_file", "read_settings_file"]

FILE_NAME: Final = "skillserve.toml"


class ConfigurationError(Exception):
    """A setting cannot be used; the message names it, what is wrong, and where it came from."""


def own_file(config_home: Path) -> Path:
    """Return where the user's own settings are."""
    return config_home / "skillserve" / FILE_NAME


def read_settings_file(file: Path) -> dict[str, Any]:
    """Return what a file of settings says, unchecked but for its form, with the paths of sources made absolute.

    Raises:
        ConfigurationError: it cannot be read, or is no TOML.
    """
    try:
        raw = read_bounded(file)
    except FileRefusedError as error:
        raise ConfigurationError(str(error)) from None
    if raw is None:
        return {}
    import tomllib  # noqa: PLC0415 - few have such a file, and each start would pay for it

    try:
        found = tomllib.loads(raw.decode("utf-8"))
    except RecursionError:
        raise ConfigurationError(f"{file}: it nests too deep") from None
    except ValueError as error:
        raise ConfigurationError(f"{file}: {error}") from None
    if "project" in found:
        raise ConfigurationError(f"{file}: project: unknown")
    if isinstance(found.get("sources"), list):
        found["sources"] = [_located(source, file.parent) for source in found["sources"]]
    return found


def _located(source: object, folder: Path) -> object:
    """Return a source with its path made absolute: relative to `folder`, or to the user's home after `~`."""
    table = {"path": source} if isinstance(source, str) else source
    if isinstance(table, dict) and isinstance(table.get("path"), str) and table["path"]:
        return {**table, "path": str(folder / os.path.expanduser(table["path"]))}  # noqa: PTH111 - without a home ~ stays
    return table
