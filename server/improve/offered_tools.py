"""Find out which tools the failed run had, as the next run of the skill will have them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio.to_thread

from server.improve.replayed_step import OfferedTools
from server.run.toolset import open_toolset
from server.scripts.factory import script_runner, variables_of
from skills_core.guard.allowed_tools import AllowedTools
from skills_core.run.run_skills import RunSkills

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from server.config.settings import Settings
    from skills_core.skill import Skill

__all__ = ["offered_tools"]


@asynccontextmanager
async def offered_tools(settings: Settings, skills: Sequence[Skill]) -> AsyncGenerator[OfferedTools]:
    """Yield the tools of a run with these skills, the performed one last; none of them is called.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    performed = skills[-1]
    runner = await anyio.to_thread.run_sync(script_runner, settings)
    variables = {skill.key: variables_of(skill) for skill in skills}
    async with open_toolset(settings, RunSkills(performed), runner, variables) as toolset:
        yield OfferedTools(toolset.tools, AllowedTools(performed.frontmatter.allowed_tools))
