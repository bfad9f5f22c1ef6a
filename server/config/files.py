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
    """Return what a file of settings says, unchecked but for its form, with what it names made absolute.

    Paths of sources, of workflows, of the file of MCP servers and of the record of runs are relative to the file: from
    the working directory, a repository would put its own programs, steps and interrupted runs in the place of those
    that the user meant.

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
    if isinstance(discovery := found.get("discovery"), dict):
        _locate_sources(discovery, file.parent)
    if isinstance(runs := found.get("runs"), dict):
        _locate_files_of_runs(runs, file.parent)
    return found


def _locate_sources(discovery: dict[str, Any], folder: Path) -> None:
    if isinstance(discovery.get("sources"), list):
        discovery["sources"] = [_source(source, folder) for source in discovery["sources"]]


def _locate_files_of_runs(runs: dict[str, Any], folder: Path) -> None:
    if isinstance(runs.get("workflows"), list):
        runs["workflows"] = [_located(place, folder) for place in runs["workflows"]]
    if "mcp_servers" in runs:
        runs["mcp_servers"] = _located(runs["mcp_servers"], folder)
    if "store" in runs and "://" not in str(runs["store"]):
        runs["store"] = _located(runs["store"], folder)


def _source(source: object, folder: Path) -> object:
    if isinstance(source, dict):
        return {**source, "path": _located(source["path"], folder)} if "path" in source else source
    return {"path": _located(source, folder)} if isinstance(source, str) else source


def _located(path: object, folder: Path) -> object:
    """Return a path made absolute: relative to `folder`, or to the user's home after `~`."""
    if not isinstance(path, str) or not path:
        return path
    return str(folder / os.path.expanduser(path))  # noqa: PTH111 - without a home ~ stays
