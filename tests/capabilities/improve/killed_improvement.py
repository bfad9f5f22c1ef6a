"""Kill a process in each stage of an improvement, and print what the next start finds and says."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from server.capabilities.history.histories import Histories
from server.capabilities.improve import improver
from server.capabilities.improve.improver import Improver
from server.capabilities.improve.records import ImprovementRecords, improvement_records
from server.capabilities.runs.additions import open_service
from server.capability import FinishedRun
from server.config.machine import current_environment
from skills_core.disk.sources import explicit_sources
from skills_core.guard.tool import CallDecision, ToolCall
from skills_core.live.library import Library
from skills_core.runs.executor import RunRequest
from skills_core.runs.outcome import RunOutcome, RunStatus
from tests.capabilities.improve.loops import RIGHT, SKILL, WRONG
from tests.server.settings import make_settings

STAGES: dict[str, tuple[Any, str]] = {
    "model": (improver, "perform_improve_skill"),
    "check": (improver, "refusal_of_version"),
    "measurement": (improver, "replay_failed_step"),
    "installation": (improver, "install"),
    "record": (ImprovementRecords, "update"),
}


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if "write_file" in {tool.name for tool in info.function_tools} and len(messages) == 1:
        change = {"path": "SKILL.md", "replace": WRONG, "content": RIGHT}
        return ModelResponse([ToolCallPart("write_file", change)])
    return ModelResponse([TextPart("Done.")])


@contextlib.contextmanager
def half_copied(*_: object) -> Iterator[None]:
    """Leave some of a copy, and die."""
    folder = improvement_records().work_folder(improvement_records().all()[0]["id"])
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("half")
    die()
    yield


def improve(source: Path, stage: str) -> None:
    tools = {"run_tools": [RIGHT], "workspace": str(source)}
    settings = make_settings(model="http://127.0.0.1:9/v1#m", improve=["explicit"], history=["explicit"], **tools)
    library = Library(explicit_sources([source]), current_environment)
    call = ToolCall(1, WRONG, {}, CallDecision.UNKNOWN_TOOL, "there is no such tool")
    skill = library.catalog.skill("tidy")
    outcome = RunOutcome(
        run_id="a-run", skill="tidy", digest=skill.digest, status=RunStatus.COMPLETED, tool_calls=(call,)
    )
    owner, name = STAGES.get(stage, (improver, "opened_folders"))
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(improver, "open_configured", return_value=FunctionModel(answer)))
        if stage:
            stack.enter_context(mock.patch.object(owner, name, half_copied if stage == "copy" else die))
        anyio.run(
            Improver(settings, improvement_records()).after_run,
            FinishedRun(outcome, RunRequest(skill), library.catalog),
        )


def left_of(base: Path, stage: str) -> dict[str, Any]:
    source, settings = base / "source", make_settings(improve=["explicit"], history=["explicit"])
    at_once = (source / "tidy" / "SKILL.md").read_text()
    before = improvement_records().all()[0]["status"]
    open_service(Library(explicit_sources([source]), current_environment), settings)
    [record] = improvement_records().all()
    now = (source / "tidy" / "SKILL.md").read_text()
    with Histories.of(settings).open(source) as history:
        revs = [commit.rev for commit in history.commits("tidy", 1)]
    return {
        "stage": stage,
        "whole": at_once == now and now in {SKILL, SKILL.replace(WRONG, RIGHT)},
        "is new": now != SKILL,
        "before": before,
        "status": record["status"],
        "reason": record.get("reason"),
        "commit": record.get("commit") in revs,
        "copies": sorted(path.name for path in (base / "state").glob("skillserve/improvements/work/*")),
    }


def main(base: Path) -> None:
    os.environ["XDG_STATE_HOME"] = str(base / "state")
    found = []
    # The one that is not killed comes first: its process loads what the others need.
    for stage in ("", "copy", *STAGES):
        shutil.rmtree(base, ignore_errors=True)
        (base / "source" / "tidy").mkdir(parents=True)
        (base / "source" / "tidy" / "SKILL.md").write_text(SKILL)
        killed = False
        if not stage:
            improve(base / "source", stage)
        elif (child := os.fork()) == 0:
            try:
                improve(base / "source", stage)
            finally:
                os._exit(0)
        else:
            killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        found.append({**left_of(base, stage), "killed": killed})
    print(json.dumps(found))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "base")
