"""The tools of a run, and the warnings about their sandbox."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.config.settings import OptionalTool, Settings
from server.run.toolset import open_toolset
from skills_core.run.run_skills import RunSkills
from skills_core.run.scripts.isolation import Isolation
from skills_core.run.scripts.runner import ScriptRunner
from skills_core.run.tools.allowed_tools import AllowedTools
from skills_core.run.tools.workspace_names import WorkspaceTool
from tests.core.run.scripts.running import PROGRAMS, with_files
from tests.core.run.scripts.test_isolation import WHOLE
from tests.server.settings import make_settings

WARNING = "no sandbox: it runs with all rights of the user"


def settings_for(workspace: Path, **more: Any) -> Settings:
    return make_settings(workspace=str(workspace), **more)


@pytest.fixture
def make_runner(tmp_path: Path) -> Callable[..., ScriptRunner]:
    def make(isolation: Isolation, *, require_sandbox: bool = False) -> ScriptRunner:
        from skills_core.run.scripts.runner import ScriptSetup  # noqa: PLC0415 - beside its only use

        return ScriptRunner(
            ScriptSetup(
                isolation=isolation,
                programs=PROGRAMS,
                host={},
                home=tmp_path / "home",
                cache=tmp_path / "cache",
                require_sandbox=require_sandbox,
            )
        )

    return make


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ({"run_tools": (WorkspaceTool.RUN_COMMAND,)}, True),
        ({"tools": (OptionalTool.RUN_SKILL_SCRIPT,)}, True),
        ({"run_tools": (WorkspaceTool.READ_FILE,)}, False),
    ],
)
async def test_a_run_that_can_start_programs_without_a_sandbox_warns_once(
    more: dict[str, Any],
    warned: bool,  # noqa: FBT001 - a parameter of the test
    skills: Path,
    tmp_path: Path,
    make_runner: Callable[..., ScriptRunner],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    skill = with_files(skills, {"a.py": ""})
    runner = make_runner(Isolation(why="a test wants none"))
    async with open_toolset(settings_for(tmp_path, **more), RunSkills(skill), AllowedTools(None), runner):
        assert caplog.text.count(WARNING) == int(warned)


async def test_a_run_in_a_complete_sandbox_logs_no_warning(
    skills: Path, tmp_path: Path, make_runner: Callable[..., ScriptRunner], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    settings = settings_for(tmp_path, run_tools=(WorkspaceTool.RUN_COMMAND,))
    async with open_toolset(settings, RunSkills(with_files(skills, {})), AllowedTools(None), make_runner(WHOLE)):
        assert caplog.text == ""


async def test_an_incomplete_sandbox_disables_run_command_if_a_sandbox_is_required(
    skills: Path, tmp_path: Path, make_runner: Callable[..., ScriptRunner]
) -> None:
    lacking = Isolation(Path("/usr/bin/bwrap"), lacks=("no filter",))
    settings = settings_for(tmp_path, run_tools=(WorkspaceTool.RUN_COMMAND, WorkspaceTool.READ_FILE))
    runner = make_runner(lacking, require_sandbox=True)
    async with open_toolset(settings, RunSkills(with_files(skills, {})), AllowedTools(None), runner) as tools:
        names = {tool.name for tool in tools.tools}
        assert "read_file" in names
        assert "run_command" not in names
        assert "run_command is left out because a sandbox is required: no filter" in tools.problems
