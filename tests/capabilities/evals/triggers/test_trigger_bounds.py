"""`skillserve triggers` stops at the bounds of its costs, and continues with a higher bound."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skills_core.runs.spending import SpendingFile, Spent
from skills_core.testing import Call
from tests.capabilities.evals.triggers.test_agent_triggers import BETTER, PROGRAM, Lab, lab, tagged
from tests.model_endpoint import ModelEndpoint
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY

__all__ = ["lab"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the template is run by sh")

STOPPED = 4
CENTS = ("--price-in", 1000, "--price-out", 1000)
"""A run that loads the skill takes 50 tokens, which cost 5 cents, if it is ended early; each other one takes 10."""


def spent(lab: Lab) -> Spent:
    return SpendingFile(lab.workspace / "spending.sqlite").spent()


def test_runs_are_bounded_and_a_higher_bound_continues(lab: Lab) -> None:
    done = lab.run("--max-requests", 4)
    assert done.returncode == STOPPED
    assert "Stopped at the bound: 4 of at most 10 runs: 4 of 4 requests are used" in done.stderr
    assert len(lab.calls()) == 4
    found = lab.results()
    assert found["finished"] is False
    assert "4 of at most 10 runs" in found["stopped"]
    again = lab.run("--max-requests", 30)
    assert again.returncode == 0
    assert lab.results()["stopped"] is None
    assert not (lab.workspace / "triggers-2").exists()
    queries = [call["query"] for call in lab.calls()]
    assert len(queries) == len(lab.results()["results"]) * 2 + 1, "no run is repeated"


def test_dollars_are_bounded_also_for_runs_that_are_ended_early(lab: Lab) -> None:
    # All runs together cost 28 cents, in whichever order: the canary, three that load the skill, and eight others.
    lab.obey(works_on=["always"])
    done = lab.run("--max-cost", 0.22, *CENTS, "--runs", 6)
    assert done.returncode == STOPPED
    assert 0.15 < spent(lab).cost <= 0.22
    assert "of $0.22 are used" in done.stderr
    assert lab.run("--max-cost", 5, *CENTS, "--runs", 6).returncode == 0
    assert lab.results()["costs"]["cost_usd"] > 0


def test_an_unknown_cost_is_refused_before_the_first_run(lab: Lab) -> None:
    done = lab.run("--max-cost", 1)
    assert (done.returncode, lab.calls()) == (2, [])
    assert "give it with --price-in and --price-out" in done.stderr


def test_the_model_that_revises_needs_a_price_and_its_requests_count(lab: Lab, endpoint: ModelEndpoint) -> None:
    endpoint.script = [tagged(BETTER)]
    lab.obey(loads=["harbour"], needs=["sands", "island", "cape", "bay"])
    words = ("harbour", "shore", "sands", "island", "cape", "bay")
    lab.ask(*((f"when is the {word} dry", True) for word in words), *((f"will it rain {n}", False) for n in range(6)))
    flags = ("--optimize", "--model", endpoint.model, "--runs", 1, "--rounds", 1)
    refused = lab.run(*flags, "--max-cost", 1, *CENTS)
    assert refused.returncode == 2
    assert "the price of" in refused.stderr
    assert lab.calls() == []
    bounded = lab.run(*flags, "--max-requests", 14)
    assert bounded.returncode == STOPPED
    assert len(lab.calls()) + len(endpoint.requests) == 14
    found = lab.results()
    assert (found["finished"], len(found["rounds"])) == (False, 1)
    assert lab.run(*flags, "--max-requests", 100).returncode in {0, 1}
    assert lab.results()["stopped"] is None


def test_our_own_executor_counts_each_request_to_its_model(lab: Lab, endpoint: ModelEndpoint) -> None:
    endpoint.reply = lambda asked: Call("activate_skill", {"name": "tides"}) if len(asked["messages"]) < 3 else "done"
    done = run("triggers", lab.skill, "--agent", "skillserve", "--model", endpoint.model, "--max-requests", 3)
    assert done.returncode == STOPPED
    assert 1 <= len(endpoint.requests) <= 4


def start(lab: Lab, workspace: Path, *flags: object) -> subprocess.Popen[str]:
    words = ("--agent-command", lab.template, "--workspace", workspace, *flags)
    command = [sys.executable, "-m", "server", "triggers", str(lab.skill), *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


def test_two_processes_in_one_workspace_share_the_bound(lab: Lab) -> None:
    lab.skill.joinpath("evals/evals.json").write_text(json.dumps({"evals": [{"prompt": "when is the harbour dry"}]}))
    template = f"{sys.executable} -I -S {PROGRAM} {{prompt}} # {{skill}}"
    words: list[Any] = ["eval", lab.skill, "--agent", "claude", "--agent-command", template, "--no-grade", "--runs", 4]
    bounds = ["--workspace", lab.workspace, "--max-requests", 6]
    command = [sys.executable, "-m", "server", *map(str, [*words, *bounds])]
    pipe = subprocess.PIPE
    evals = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
    queries = start(lab, lab.workspace, "--max-requests", 6)
    for process in (evals, queries):
        process.communicate(timeout=120)
        assert process.returncode == STOPPED
    assert spent(lab).requests == 6
