"""Helpers that install plugins from a tampering server in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio

from server.capabilities.remote.plugins.folder import PluginsFolder
from server.capabilities.remote.plugins.installed import parse_origin
from server.capabilities.remote.plugins.operations import InstallOptions, PluginResult, install_plugin, update_plugin
from tests.capabilities.remote.hostile import Served, listed, serve_skill, skill_md


def versioned(path: str, version: str, files: dict[str, bytes] | None = None) -> Served:
    """Return a truthful skill with a version."""
    served = serve_skill(path, files)
    raw = skill_md(path.rpartition("/")[2], f"version: {json.dumps(version)}\n")
    served.contents[served.uri] = raw
    served.resources[0] = listed(served.uri, raw)
    served.entry["frontmatter"]["version"] = version
    return served


async def install(
    url: str, root: Path, *chosen: str, name: str = "acme", ref: str | None = None, **options: Any
) -> PluginResult:
    with anyio.fail_after(60):
        return await install_plugin(
            PluginsFolder(root), name, parse_origin(url, ref=ref), chosen, InstallOptions(**options)
        )


async def update(
    root: Path, *headers: str, name: str = "acme", url: str = "", ref: str | None = None, **options: Any
) -> PluginResult:
    origin = parse_origin(url, headers, ref) if url else None
    with anyio.fail_after(60):
        return await update_plugin(PluginsFolder(root), name, origin, headers, InstallOptions(**options), ref)


def content(root: Path) -> dict[str, bytes]:
    """Return all files below a folder, whatever their names, the lock aside."""
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if not path.is_dir()}
    return {name: path.read_bytes() for name, path in files.items() if not name.endswith(".lock")}


def skill_files(root: Path) -> set[str]:
    """Return the paths of all files that are not hidden."""
    return {path for path in content(root) if not any(part.startswith(".") for part in path.split("/"))}


def changes(result: PluginResult) -> dict[str, str]:
    return {change.skill.name: change.kind.value for change in result.changes}


def codes(result: PluginResult) -> set[str]:
    return {diagnostic.code.value for diagnostic in result.diagnostics}
