"""Only processes with the same skills, settings and folders share a worker pool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.runs.factory import pool_id
from server.capabilities.runs.recorded_runs import conflict_details
from server.config.settings.tools import OptionalTool
from skills_core.runs.durable.recorded_run import RUN_FORMAT, RecordedRun, RunConflictError, RunState
from skills_core.runs.tools import WorkspaceTool
from tests.server.settings import make_settings

ROOTS = (Path("/skills"),)


def pool(environment: dict[str, str] | None = None, roots: tuple[Path, ...] = ROOTS, **settings: Any) -> str:
    return pool_id(make_settings(**{"model": "openai:x", **settings}), roots, environment or {})


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "openai:y"},
        {"run_tools": (WorkspaceTool.READ_FILE,)},
        {"workspace": "/elsewhere"},
        {"mcp_servers": "/other.json"},
        {"skill_tools": ("a/*",)},
        {"danger_patterns": ("x",)},
        {"confirm_patterns": ("x",)},
        {"require_sandbox": True},
        {"script_network": True},
        {"script_workspace": "/tmp"},  # noqa: S108
        {"script_cwd": "scratch"},
        {"script_environment": ("X",)},
        {"script_package_urls": True},
        {"script_uv_environment": ("X",)},
        {"tools": (OptionalTool("run_skill_script"),)},
        {"environment": {"OPENAI_BASE_URL": "http://other"}},
        {"roots": (Path("/others"),)},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_that_affect_runs_change_the_pool(settings: dict[str, Any]) -> None:
    assert pool(**settings) != pool()


def test_other_settings_do_not_change_the_pool() -> None:
    assert pool(port=9000, log_level="debug", runs_at_once=9, environment={"PATH": "/bin"}) == pool()


def test_relative_paths_are_resolved_against_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    here, absolute = pool(workspace="."), pool(workspace=str(tmp_path / "a"))
    monkeypatch.chdir(tmp_path / "b")
    assert here == absolute != pool(workspace=".")


def test_a_conflict_with_another_pool_names_the_possible_differences() -> None:
    error = conflict_details(RunConflictError("one", "by another pool"), "skill", {})
    assert "by a process with other folders, another model or other tools" in str(error)


RECORDED = RecordedRun(
    run_id="one",
    kind="skill",
    given={"skill": "a", "digest": "d", "companions": [], "restricted": True},
    state=RunState.RUNNING,
    run_format=str(RUN_FORMAT),
)


@pytest.mark.parametrize(
    ("recorded", "inputs", "expected"),
    [
        ({}, {"skill": "b"}, "another input"),
        ({}, {"digest": "e"}, "the skill has changed since, from d to e"),
        ({}, {"companions": [{}]}, "or its client sees other skills"),
        ({}, {"restricted": False}, "or its client sees other skills"),
        # As the version before recorded them.
        ({"given": {"skill": "a", "digest": "d"}, "run_format": "1"}, {}, "a version with another run format"),
        ({"given": {"skill": "a", "digest": "d"}, "run_format": "1"}, {"skill": "b"}, "another input"),
    ],
)
def test_a_conflict_says_what_differs(recorded: dict[str, Any], inputs: dict[str, Any], expected: str) -> None:
    run = replace(RECORDED, **recorded)
    error = conflict_details(RunConflictError("one", recorded=run), "skill", {**RECORDED.given, **inputs})
    assert expected in str(error)
    assert ("Give it the same" in str(error)) == ("run format" not in expected)
