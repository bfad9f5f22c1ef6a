"""The name of the pool of workers that may continue each other's runs: those with the same skills and settings."""

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

__all__ = ["pool_of"]

_DECIDE = (
    *("model", "run_tools", "skill_tools", "danger_patterns", "confirm_patterns"),
    *("require_sandbox", "script_environment", "script_network", "script_package_urls", "script_uv_environment"),
)
# Settings by which a run may come to another end, or reach other things.

_PLACES = ("workspace", "mcp_servers", "script_workspace")
# Settings that are places, which are others for whoever is elsewhere.


def pool_of(settings: Settings, roots: Iterable[Path], environment: Mapping[str, str] = os.environ) -> str:
    """Return the name for runs by `settings` of the skills below `roots`.

    A process with another model, other tools or other folders performs other runs, and leaves these alone.
    """
    decided = {name: getattr(settings, name) for name in _DECIDE}
    places = {name: _absolute(getattr(settings, name)) for name in _PLACES}
    # Where a provider's library finds its provider.
    addresses = {name: value for name, value in environment.items() if name.endswith("_BASE_URL")}
    scripts = OptionalTool.RUN_SKILL_SCRIPT in settings.tools
    text = json.dumps([decided, places, addresses, scripts, sorted(map(str, roots))], sort_keys=True, default=list)
    return f"runs-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _absolute(place: str | None) -> str | None:
    return None if place is None else str(Path(place).expanduser().resolve())
