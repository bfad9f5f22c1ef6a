"""The tools of a run, and the warnings about their sandbox."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.runs.skill_runner import open_toolset
from server.config.files import ConfigurationError
from server.config.settings.model import Settings
from server.config.settings.tools import OptionalTool
from skills_core.runs.run_skills import RunSkills
from skills_core.runs.tools import WorkspaceTool
from skills_core.scripts.isolation import Isolation
from skills_core.scripts.runner import ScriptRunner
from tests.core.guard.conftest import make_gate
from tests.core.scripts.running import PROGRAMS, with_files
from tests.core.scripts.test_isolation import WHOLE
from tests.server.settings import make_settings

__all__ = ["make_gate"]

WARNING = "no sandbox: it runs with all rights of the user"


def settings_for(workspace: Path, **more: Any) -> Settings:
    return make_settings(workspace=str(workspace), **more)


@pytest.fixture
def make_runner(tmp_path: Path) -> Callable[..., ScriptRunner]:
    def make(isolation: Isolation, *, require_sandbox: bool = False) -> ScriptRunner:
        from skills_core.scripts.runner import ScriptSetup  # noqa: PLC0415 - beside its only use

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
        ({"tools": (OptionalTool("run_skill_script"),)}, True),
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
    async with open_toolset(settings_for(tmp_path, **more), RunSkills(skill), runner):
        assert caplog.text.count(WARNING) == int(warned)


async def test_a_run_in_a_complete_sandbox_logs_no_warning(
    skills: Path, tmp_path: Path, make_runner: Callable[..., ScriptRunner], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    settings = settings_for(tmp_path, run_tools=(WorkspaceTool.RUN_COMMAND,))
    async with open_toolset(settings, RunSkills(with_files(skills, {})), make_runner(WHOLE)):
        assert caplog.text == ""


async def test_an_incomplete_sandbox_disables_run_command_if_a_sandbox_is_required(
    skills: Path, tmp_path: Path, make_runner: Callable[..., ScriptRunner], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lacking = Isolation(Path("/usr/bin/bwrap"), lacks=("no filter",))
    settings = settings_for(tmp_path, run_tools=(WorkspaceTool.RUN_COMMAND, WorkspaceTool.READ_FILE))
    runner = make_runner(lacking, require_sandbox=True)
    async with open_toolset(settings, RunSkills(with_files(skills, {})), runner) as toolset:
        names = {tool.name for tool in toolset.tools}
        assert "read_file" in names
        assert "run_command" not in names
        assert "run_command is left out because a sandbox is required: no filter" in caplog.text


@pytest.mark.parametrize("inside", ["state/skillserve", "state/skillserve/skills", "config/skillserve", "log"])
async def test_a_workspace_within_state_or_settings_is_refused(
    skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / inside).mkdir(parents=True)
    settings = settings_for(tmp_path / inside, run_tools=("read_file",), audit_log_folder=str(tmp_path / "log"))
    with pytest.raises(ConfigurationError, match=r"runs\.workspace"):
        async with open_toolset(settings, RunSkills(with_files(skills, {}))):
            pass


async def test_a_workspace_around_state_and_settings_hides_them(
    skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_gate: Any
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home/state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/config"))
    servers = tmp_path / "home/mcp.json"
    paths = ("state/skillserve/skills/spending.json", "config/skillserve/skillserve.toml", "mcp.json", "other.txt")
    for path in paths:
        (tmp_path / "home" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / path).write_text('{"mcpServers": {}}')
    settings = settings_for(tmp_path / "home", run_tools=("read_file",), mcp_servers=str(servers))
    async with open_toolset(settings, RunSkills(with_files(skills, {}))) as toolset:
        gate = make_gate(*toolset.tools)
        answers = [await gate.call("read_file", {"path": path}, 1) for path in paths]
    assert ["are private" in each.text for each in answers] == [True, True, True, False]


async def test_a_workspace_with_the_record_of_runs_in_it_is_refused(skills: Path, tmp_path: Path) -> None:
    settings = settings_for(tmp_path, run_tools=("read_file",), run_store=str(tmp_path / "runs.sqlite"))
    with pytest.raises(ConfigurationError, match=r"runs\.store"):
        async with open_toolset(settings, RunSkills(with_files(skills, {}))):
            pass
