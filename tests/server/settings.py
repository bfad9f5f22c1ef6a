"""Settings for tests, in the few words of the command line."""

from __future__ import annotations

from typing import Any

from server.config.settings.layers import combine, from_flags
from server.config.settings.model import Settings


def make_settings(**options: Any) -> Settings:
    """Return settings by their names outside of files: `run_turns=1` stands for `runs.turns`."""
    return combine(from_flags(options))
