"""The name of the pool of workers that may continue each other's runs: those with the same skills and settings."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from server.config import Settings

__all__ = ["pool_of"]

_DECIDE = ("model", "run_tools", "workspace", "mcp_servers", "skill_tools", "danger_patterns", "confirm_patterns")
# Settings by which a run may come to another end, or reach other things.


def pool_of(settings: Settings, roots: Iterable[Path]) -> str:
    """Return the name for runs by `settings` of the skills below `roots`.

    A process with another model, other tools or other folders performs other runs, and leaves these alone.
    """
    decided = {name: getattr(settings, name) for name in _DECIDE}
    text = json.dumps([decided, [str(root) for root in roots]], sort_keys=True, default=list)
    return f"runs-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
