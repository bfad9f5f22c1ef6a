"""How scripts of skills run on this machine."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from server.environment import current_places, state_home
from skills_core.run.scripts.interpreters import Programs
from skills_core.run.scripts.isolation import find_isolation
from skills_core.run.scripts.runner import ScriptRunner, ScriptSetup

if TYPE_CHECKING:
    from server.config import Settings
    from skills_core.run.scripts.isolation import Isolation

__all__ = ["script_runner"]


def script_runner(settings: Settings) -> ScriptRunner:
    """Return what runs scripts; the first time, it is tried out whether a sandbox works."""
    del settings
    programs = Programs((*map(Path, os.get_exec_path()), Path(sys.executable).parent), Path(sys.executable))
    return ScriptRunner(
        ScriptSetup(
            isolation=_isolation(programs),
            programs=programs,
            host=dict(os.environ),
            home=current_places().home,
            cache=state_home() / "scripts",
        )
    )


@cache
def _isolation(programs: Programs) -> Isolation:
    return find_isolation(programs, unprivileged=sys.platform == "win32" or os.geteuid() != 0)
