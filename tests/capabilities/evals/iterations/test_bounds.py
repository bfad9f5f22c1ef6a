"""`skillserve eval` stops at the bounds of its costs, keeps what is finished, and continues with a higher bound."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from skills_core.runs.spending import Bounds, SpendingFile, Use
from tests.capabilities.evals.conftest import Lab
from tests.capabilities.evals.iterations.test_own_agent import judges, model
from tests.model_endpoint import ModelEndpoint

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents of these tests are POSIX shell scripts")

STOPPED = 4

END = {
    "type": "result",
    "is_error": False,
    "result": "done",
    "total_cost_usd": 0.25,
    "usage": {"input_tokens": 90, "output_tokens": 10},
}
CLAUDE = f"""
echo "$PWD" >> {{log}}
if [ -n "$2" ]; then cat "$2/assets/template.txt" > "$3/out.txt"; else echo plain > "$3/out.txt"; fi
echo '{json.dumps(END)}'
"""
"""An agent that prints what Claude Code prints at the end of a run of 25 cents."""


def prices(lab: Lab, endpoint: ModelEndpoint) -> dict[str, str]:
    """Return the environment in which a million tokens of the scripted model cost 1,000 and 5,000 dollars."""
    file = lab.folder / "config/skillserve/skillserve.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'[runs.prices]\n"{endpoint.model}" = {{ input = 1000.0, output = 5000.0 }}\n')
    return {"XDG_CONFIG_HOME": str(lab.folder / "config")}


@pytest.fixture
def own(lab: Lab, endpoint: ModelEndpoint) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """Run `eval --json` with our own executor, whose requests cost 15 cents each."""
    endpoint.reply = model

    def report(*flags: object) -> tuple[int, dict[str, Any], str]:
        done = lab.run("--json", "--model", endpoint.model, *flags, agent="", **prices(lab, endpoint))
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr

    return report


Own = Callable[..., tuple[int, dict[str, Any], str]]


def test_requests_are_bounded_and_a_higher_bound_continues(own: Own, lab: Lab, endpoint: ModelEndpoint) -> None:
    code, report, said = own("--max-requests", 4)
    assert code == STOPPED
    done = len(report["runs"])
    assert f"Stopped at the bound: {done} of 4 runs" in report["stopped"]
    assert report["stopped"] in report["notes"]
    assert "The same command with a higher bound continues" in said
    assert (0 < done < 4, report["errors"]) == (True, 0)
    assert len(endpoint.requests) <= 5, "at most one run is beyond the bound"
    finished = {path: path.read_bytes() for path in lab.workspace.rglob("outcome.json")}
    code, report, _ = own("--max-requests", 40)
    assert (code, report["resumed"], report["stopped"], len(report["runs"])) == (0, True, None, 4)
    assert all(path.read_bytes() == raw for path, raw in finished.items())


def test_dollars_are_bounded_by_the_prices_of_the_settings(own: Own, endpoint: ModelEndpoint) -> None:
    code, report, said = own("--max-cost", 0.5, "--jobs", 4)
    assert code == STOPPED, said
    spent = 0.15 * len(endpoint.requests)
    assert spent <= 0.5 + 0.3, "at most the run under way is beyond the bound"
    assert sum(run["result"]["errors"] for run in report["runs"]) == 0
    assert own("--max-cost", 5)[0] == 0


def test_what_a_repeated_command_has_used_counts_and_says_so_before_any_run(own: Own, endpoint: ModelEndpoint) -> None:
    assert own("--max-requests", 40)[0] == 0
    made = len(endpoint.requests)
    code, report, said = own("--new", "--max-requests", made)
    assert (code, report) == (STOPPED, {})
    assert f"Stopped at the bound: 0 of 4 runs: {made} of {made} requests are used" in said
    assert len(endpoint.requests) == made


def test_requests_to_the_judge_count_and_a_run_that_is_not_judged_is_judged_later(
    own: Own, lab: Lab, endpoint: ModelEndpoint
) -> None:
    lab.write_evals({"prompt": "greet Ada", "assertions": ["it names Ada"]})
    code, report, _ = own("--max-requests", 3, "--jobs", 1)
    assert code == STOPPED
    asked = len(endpoint.requests)
    assert asked <= 3
    assert report["errors"] == 0
    assert own("--max-requests", 30)[0] == 0
    judged = [asked for asked in endpoint.requests if judges(asked)]
    assert len(judged) == 2


def test_a_bound_of_the_cost_refuses_an_agent_whose_cost_is_unknown(lab: Lab) -> None:
    done = lab.run("--max-cost", 1)
    assert done.returncode == 2
    assert "give it with --price-in and --price-out" in done.stderr
    assert lab.logged() == []
    assert "belong together" in lab.run("--max-cost", 1, "--price-in", 1).stderr


def test_a_judge_whose_price_is_unknown_is_refused_with_a_bound_of_the_cost(lab: Lab, endpoint: ModelEndpoint) -> None:
    lab.write_evals({"assertions": ["it is polite"]})
    flags = ("--max-cost", 1, "--price-in", 1, "--price-out", 1, "--judge-model", endpoint.model)
    done = lab.run(*flags)
    assert (done.returncode, lab.logged()) == (2, [])
    assert "--max-cost needs to know what the judge costs" in done.stderr


def test_an_agent_that_reports_no_tokens_is_stopped_after_its_first_run(lab: Lab) -> None:
    done = lab.run("--max-cost", 1, "--price-in", 1, "--price-out", 1, "--jobs", 2)
    assert done.returncode == STOPPED
    assert "the cost of 1 run is unknown" in done.stderr
    assert len(lab.logged()) == 1


def test_what_an_agent_reports_counts(lab: Lab) -> None:
    flags = ("--agent", "claude", "--max-cost", 0.6, "--runs", 2)
    done = lab.run("--json", *flags, agent=lab.agent(CLAUDE))
    report = json.loads(done.stdout)
    assert (done.returncode, len(report["runs"]), len(lab.logged())) == (STOPPED, 2, 2)
    assert "$0.5000 of $0.6 are used, and further work may cost $0.2500" in report["stopped"]


def test_what_another_process_uses_in_the_workspace_counts(lab: Lab) -> None:
    lab.workspace.mkdir()
    other = SpendingFile(lab.workspace / "spending.sqlite")
    number = other.begin("triggers", Bounds(), 7)
    assert number is not None
    other.end(number, Use(7))
    done = lab.run("--max-requests", 9)
    assert (done.returncode, len(lab.logged())) == (STOPPED, 2)


def test_seconds_are_bounded(lab: Lab) -> None:
    slow = "sleep 1.1\n" + 'echo plain > "$3/out.txt"\n' + "echo x >> {log}\n"
    done = lab.run("--max-seconds", 2, "--jobs", 1, agent=lab.agent(slow))
    assert done.returncode == STOPPED
    assert len(lab.logged()) < 4
    assert "seconds are used" in done.stderr


def test_settings_have_the_bounds_too(lab: Lab) -> None:
    assert lab.run(SKILLSERVE_EVAL_MAX_REQUESTS="1").returncode == STOPPED
    assert len(lab.logged()) == 1
