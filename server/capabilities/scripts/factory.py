"""Build the script runner from the settings and this machine's programs and sandbox."""

from __future__ import annotations

import functools
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.capabilities.scripts.settings import RUN_SKILL_SCRIPT, ScriptSettings
from server.config.jdai import script_variables
from server.config.machine import current_places, private_places, state_home
from server.config.settings.model import Settings
from server.config.values import home_path
from skills_core.diagnostics import one_line
from skills_core.scripts.isolation import find_isolation
from skills_core.scripts.process import ProcessLimits
from skills_core.scripts.programs import ProgramFinder
from skills_core.scripts.runner import PackageSetup, ScriptRunner, ScriptSetup

if TYPE_CHECKING:
    from msgspec import Struct

    from skills_core.scripts.isolation import Isolation
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)


def script_setup(settings: Settings) -> ScriptSetup:
    """Return how scripts run on this machine. The first call tests whether a sandbox works."""
    scripts = settings.section(ScriptSettings)
    return ScriptSetup(
        isolation=_isolation(_workspaces(settings)),
        programs=_programs(_workspaces(settings)),
        host=dict(os.environ),
        home=current_places().home,
        cache=state_home() / "scripts",
        private=private_places(settings),
        require_sandbox=scripts.require_sandbox,
        network=scripts.network,
        workspace=home_path(scripts.workspace) if scripts.workspace else None,
        cwd=scripts.cwd,
        passed=scripts.environment,
        packages=PackageSetup(
            index=scripts.index.get_secret_value() if scripts.index else None,
            passed=scripts.uv_environment,
            any_source=scripts.package_urls,
        ),
        limits=ProcessLimits(scripts.seconds, scripts.output_bytes),
    )


def script_runner(settings: Settings) -> ScriptRunner:
    """Return the script runner for this machine."""
    return ScriptRunner(script_setup(settings))


def variables_of(skill: Skill) -> dict[str, str]:
    """Return the environment variables that the user has configured for this skill's processes."""
    return script_variables(current_places().home, skill)


def offers_scripts(settings: Settings) -> bool:
    """Tell whether the tool `run_skill_script` is offered: the settings enable it, and scripts can run."""
    if RUN_SKILL_SCRIPT not in settings.tools.enabled:
        return False
    return not settings.section(ScriptSettings).require_sandbox or not described_setup(settings).isolation.fault


def described_setup(settings: Settings) -> ScriptSetup:
    """Return how scripts run, as the list of tools tells clients: found out once, since the list is asked for often."""
    return _described_setup(settings.capabilities)


@functools.lru_cache(16)
def _described_setup(sections: frozenset[Struct]) -> ScriptSetup:
    return script_setup(Settings(capabilities=sections))


def log_script_setup(settings: Settings) -> None:
    """Log how clients can run scripts, or why they cannot."""
    level = logging.INFO if offers_scripts(settings) else logging.WARNING
    logger.log(level, "scripts: %s", one_line(described_setup(settings).statement))


def script_status(settings: Settings) -> dict[str, Any]:
    """Return the part of the status about scripts."""
    setup = script_setup(settings)
    return {
        "offered": offers_scripts(settings),
        "isolation": setup.isolation.kind.value,
        "sandbox_required": settings.section(ScriptSettings).require_sandbox,
        "missing": list(setup.isolation.lacks),
        "memory_limited": setup.isolation.cgroups is not None,
        "statement": setup.statement,
    }


@functools.cache
def _isolation(workspaces: tuple[Path, ...]) -> Isolation:
    return find_isolation(_programs(workspaces), unprivileged=sys.platform == "win32" or os.geteuid() != 0)


def _workspaces(settings: Settings) -> tuple[Path, ...]:
    """Return the workspaces, whose programs never run outside the sandbox.

    A section's `workspace` is a folder that programs may change: that of scripts, and that of runs.
    """
    named = {getattr(section, "workspace", None) for section in settings.capabilities}
    return tuple(home_path(each).absolute() for each in sorted(filter(None, named)))


def _programs(workspaces: tuple[Path, ...]) -> ProgramFinder:
    # Relative entries of PATH depend on the working directory, which is untrusted. uv may be installed next to Python.
    named = [Path(folder) for folder in os.get_exec_path() if Path(folder).is_absolute()]
    return ProgramFinder((*named, Path(sys.executable).parent), Path(sys.executable), workspaces)
