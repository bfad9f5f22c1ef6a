"""Locate and parse `skillserve.toml`; the values are checked elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from skills_core.disk.files import read_bounded
from skills_core.disk.sources import Scope
from skills_core.errors import FileRefusedError

FILE_NAME: Final = "skillserve.toml"


class ConfigurationError(Exception):
    """A setting cannot be used; the message names the setting, its fault and its origin."""


def own_file(config_home: Path) -> Path:
    """Return the path of the user's own settings file."""
    return config_home / "skillserve" / FILE_NAME


def read_settings_file(file: Path) -> dict[str, Any]:
    """Return the unchecked values of a settings file, with their paths made absolute.

    Paths of sources, workflows, the file of MCP servers, the record of runs and the audit log are relative to the
    settings file. If they were relative to the working directory, a repository could substitute its own programs,
    workflows and interrupted runs for those of the user.

    Raises:
        ConfigurationError: the file cannot be read, or is not valid TOML.
    """
    try:
        raw = read_bounded(file)
    except FileRefusedError as error:
        raise ConfigurationError(str(error)) from None
    if raw is None:
        return {}
    import tomllib  # noqa: PLC0415 - few users have this file, and the import slows each start

    try:
        found = tomllib.loads(raw.decode("utf-8"))
    except RecursionError:
        raise ConfigurationError(f"{file}: it is nested too deeply") from None
    except ValueError as error:
        raise ConfigurationError(f"{file}: {error}") from None
    if "project" in found:
        raise ConfigurationError(f"{file}: project: unknown")
    _locate_all(found, file.parent)
    return found


def _locate_all(found: dict[str, Any], folder: Path) -> None:
    for section, key, locate in _PATHS:
        settings = found.get(section)
        if isinstance(settings, dict) and key in settings:
            value = settings[key]
            located = [locate(each, folder) for each in value] if isinstance(value, list) else locate(value, folder)
            settings[key] = located


def _source_name(name: object, folder: Path) -> object:
    return name if name in list(Scope) else _located(name, folder)


def _store(place: object, folder: Path) -> object:
    return place if "://" in str(place) else _located(place, folder)


def _source(source: object, folder: Path) -> object:
    if isinstance(source, dict):
        return {**source, "path": _located(source["path"], folder)} if "path" in source else source
    return {"path": _located(source, folder)} if isinstance(source, str) else source


def _located(path: object, folder: Path) -> object:
    """Return an absolute path: relative to `folder`, or to the user's home if it begins with `~`."""
    if not isinstance(path, str) or not path:
        return path
    return str(folder / os.path.expanduser(path))  # noqa: PTH111 - keeps ~ if there is no home


_PATHS: Final = (
    ("discovery", "sources", _source),
    ("discovery", "index_path", _located),
    ("history", "sources", _source_name),
    ("improve", "sources", _source_name),
    ("runs", "workflows", _located),
    ("runs", "mcp_servers", _located),
    ("runs", "store", _store),
    ("audit_log", "folder", _located),
)
"""The settings that are paths or lists of paths, and how each is made absolute."""
