"""Compute the ID of a worker pool: workers with the same skills and settings may continue each other's runs."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from server.config.settings import OptionalTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from server.config.settings import Settings

__all__ = ["pool_id"]


def pool_id(settings: Settings, roots: Iterable[Path], environment: Mapping[str, str] = os.environ) -> str:
    """Return the pool ID of a process with these settings and with the skills below `roots`.

    Processes with another model, other tools or other folders get another ID.
    """
    runs, scripts = settings.runs, settings.scripts
    # Settings that affect the outcome of a run, or what it can access. The keys are hashed, so they must not change.
    values = {
        "model": runs.model,
        "run_tools": runs.tools,
        "skill_tools": settings.tools.declared,
        "danger_patterns": settings.guard.danger_patterns,
        "confirm_patterns": settings.guard.confirm_patterns,
        "require_sandbox": scripts.require_sandbox,
        "script_environment": scripts.environment,
        "script_network": scripts.network,
        "script_package_urls": scripts.package_urls,
        "script_uv_environment": scripts.uv_environment,
    }
    if scripts.cwd is not None:
        # The default has no key, because a further key changes every ID.
        values["script_cwd"] = scripts.cwd
    # Paths are resolved against the working directory.
    paths = {
        "workspace": _absolute(runs.workspace),
        "mcp_servers": _absolute(runs.mcp_servers),
        "script_workspace": _absolute(scripts.workspace),
    }
    # These variables set the addresses of model providers.
    addresses = {name: value for name, value in environment.items() if name.endswith("_BASE_URL")}
    offered = OptionalTool.RUN_SKILL_SCRIPT in settings.tools.enabled
    text = json.dumps([values, paths, addresses, offered, sorted(map(str, roots))], sort_keys=True, default=list)
    return f"runs-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().resolve())
