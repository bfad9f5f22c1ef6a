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

_SETTINGS = (
    *("model", "run_tools", "skill_tools", "danger_patterns", "confirm_patterns"),
    *("require_sandbox", "script_environment", "script_network", "script_package_urls", "script_uv_environment"),
)
# Settings that affect the outcome of a run, or what it can access.

_PATHS = ("workspace", "mcp_servers", "script_workspace")
# Settings that are paths, and are resolved against the working directory.


def pool_id(settings: Settings, roots: Iterable[Path], environment: Mapping[str, str] = os.environ) -> str:
    """Return the pool ID of a process with these settings and with the skills below `roots`.

    Processes with another model, other tools or other folders get another ID.
    """
    values = {name: getattr(settings, name) for name in _SETTINGS}
    paths = {name: _absolute(getattr(settings, name)) for name in _PATHS}
    # These variables set the addresses of model providers.
    addresses = {name: value for name, value in environment.items() if name.endswith("_BASE_URL")}
    scripts = OptionalTool.RUN_SKILL_SCRIPT in settings.tools
    text = json.dumps([values, paths, addresses, scripts, sorted(map(str, roots))], sort_keys=True, default=list)
    return f"runs-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().resolve())
