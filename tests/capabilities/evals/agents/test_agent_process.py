"""An agent's process is read while it runs, and ended with everything that it started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from server.capabilities.evals.agents.cli_agent import run_agent
from skills_core.evals.agents.claude import CLAUDE
from skills_core.evals.agents.kind import AgentRun, Transcript
from skills_core.scripts.process import Command
from tests.processes import becomes, sleepers, unique_seconds

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are scripts of sh")

CALL = (
    '{"type":"assistant","message":{"id":"1","content":[{"type":"tool_use","id":"t","name":"Skill","input":{"skill":"s"}}]}}'
    '\n{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}}'
)


def is_loaded(record: Transcript) -> bool:
    return "s" in record.loaded


async def run(script: str, folder: Path, seconds: float = 60) -> AgentRun:
    command = Command(("sh", "-c", script), folder, dict(os.environ))
    return await run_agent(command, seconds, CLAUDE.reader(), is_loaded)


async def test_a_run_whose_outcome_is_clear_is_ended_with_what_it_started(tmp_path: Path) -> None:
    marker = unique_seconds()
    (tmp_path / "events").write_text(CALL + "\n")
    done = await run(f"sleep {marker} & cat events; wait", tmp_path)
    assert (done.stopped, done.timed_out, done.exit_code, done.transcript.loaded) == (True, False, None, ("s",))
    assert len(done.lines) == 2
    assert await becomes(lambda: not sleepers(marker))


async def test_the_last_line_needs_no_end_and_a_separator_in_a_text_is_no_end(tmp_path: Path) -> None:
    line = '{"type":"result","is_error":false,"subtype":"success","result":"one\u2028two"}'
    (tmp_path / "events").write_text(line, encoding="utf-8")
    done = await run("cat events; echo oops >&2", tmp_path)
    assert (done.answer, done.exit_code, done.errors) == ("one\u2028two", 0, "oops")
    assert done.lines == (line.replace(":", ": ").replace(",", ", "), '{"text": "oops", "stream": "stderr"}')


async def test_output_without_end_ends_the_run_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.capabilities.evals.agents.cli_agent._MAX_OUTPUT", 100_000)
    done = await run("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", tmp_path)
    assert done.fault == "the agent printed more than 100,000 bytes"


async def test_a_run_without_time_is_a_timeout(tmp_path: Path) -> None:
    done = await run("echo said; sleep 600", tmp_path, 0.5)
    assert (done.timed_out, done.stopped, done.answer) == (True, False, "said\n")
