"""`--dry-run` is a table of 80 columns that invents nothing, and warns of what would be wasted."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities.evals.conftest import HELLO, Lab
from tests.capabilities.evals.iterations.test_bounds import CLAUDE, prices
from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.server.cli.test_cli import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents of these tests are POSIX shell scripts")


def forecast(lab: Lab, *flags: object, agent: str | None = None, **environment: str) -> dict[str, Any]:
    done = lab.run("--dry-run", "--json", *flags, agent=agent, **environment)
    return json.loads(done.stdout)["forecast"]  # type: ignore[no-any-return]


def warnings(lab: Lab, *flags: object, agent: str | None = None) -> str:
    return " ".join(forecast(lab, *flags, agent=agent)["warnings"])


def test_a_dry_run_fits_into_80_columns(lab: Lab) -> None:
    heredoc = "python3 - <<'EOF'\nimport sys\nsys.exit(0)\nEOF"
    cases = [{"assertions": [{"text": f"{n}", "check": heredoc}], "files": ["none"] * (n == 9)} for n in range(10)]
    lab.write_evals(*cases)
    printed = lab.run("--dry-run", "--runs", 100, "--agent", "claude").stdout.splitlines()
    assert [line for line in printed[1:] if len(line) > 80] == []
    assert "  9 x python3 - <<'EOF'" in printed
    assert len(printed) < 15


def test_tokens_are_at_least_those_of_what_is_sent_and_dollars_follow_the_price(lab: Lab) -> None:
    lab.write_evals(
        {"prompt": "p" * 3996, "files": ["evals/files/a.txt"], "assertions": [HELLO]}, **{"a.txt": b"x" * 4}
    )
    rows = {each["what"]: each for each in forecast(lab, "--price-in", 10, "--price-out", 50)["rows"]}
    assert rows["without_skill"]["tokens"] == 1000
    assert rows["without_skill"]["cost_usd"] == pytest.approx(0.01)
    assert rows["with_skill"]["tokens"] > 1000
    assert rows["with_skill"]["at_least"]
    assert {each["seconds"] for each in rows.values()} == {None}


def test_a_damaged_count_hinders_an_estimate_only_if_there_are_bounds(lab: Lab) -> None:
    lab.workspace.mkdir()
    (lab.workspace / "spending.sqlite").write_bytes(b"nothing that SQLite reads" * 100)
    assert forecast(lab)["total"]["runs"] == 4
    bounded = lab.run("--dry-run", "--max-requests", 9)
    assert (bounded.returncode, "repair or remove the file" in bounded.stderr) == (2, True)


def test_what_earlier_runs_measured_takes_the_place_of_estimates(lab: Lab) -> None:
    lab.run("--agent", "claude", agent=lab.agent(CLAUDE))
    found = forecast(lab, "--agent", "claude", "--new", "--runs", 2, agent=lab.agent(CLAUDE))
    total = found["total"]
    assert (total["tokens"], total["cost_usd"], total["at_least"]) == (800, 2.0, False)
    assert total["seconds"] is not None
    assert found["basis"] == "(measured in 4 earlier runs of these cases)"


def test_the_price_of_our_own_model_is_that_of_the_settings(lab: Lab, endpoint: ModelEndpoint) -> None:
    flags = ("--model", endpoint.model)
    assert forecast(lab, *flags, agent="")["total"]["cost_usd"] is None
    assert forecast(lab, *flags, agent="", **prices(lab, endpoint))["total"]["cost_usd"] > 0


def test_waste_is_named_before_it_is_paid(lab: Lab, endpoint: ModelEndpoint) -> None:
    lab.write_evals({"name": "bare"}, {"assertions": ["it is polite"]}, {"files": ["none.csv"], "name": "lost"})
    said = warnings(lab, "--agent", "claude", agent="x {prompt}")
    assert "eval-bare: no assertions" in said
    assert "has no {skill}" not in said, "the agent has the skill in its own folder"
    assert "2 cases: a verdict needs 6 or more" in said
    assert "eval-lost is left out" in said
    assert "the model under test judges itself" in warnings(lab, "--model", endpoint.model, agent="")
    assert "has no {skill}, so both arms are the same" in warnings(lab, agent="x {prompt}")


def test_assertions_that_always_pass_are_named(lab: Lab) -> None:
    lab.write_evals({"assertions": [HELLO, {"text": "there is a file", "check": "test -f out.txt"}]})
    assert "passed in all runs" not in warnings(lab)
    lab.run()
    said = warnings(lab, "--new")
    assert "1 assertion passed in all runs of both arms before" in said
    assert "there is a file" in said


def test_a_bound_that_would_stop_the_work_is_named(lab: Lab) -> None:
    assert "it would stop at --max-requests 3: 0 are used, 4 more are expected" in warnings(lab, "--max-requests", 3)


def test_few_queries_are_named(make_skill: MakeSkill, tmp_path: Path) -> None:
    skill = make_skill("tides", description="Works out harbour times.")
    (skill / "evals").mkdir()
    asked = [{"query": f"{n}", "should_trigger": n < 12} for n in range(15)]
    (skill / "evals/eval_queries.json").write_text(json.dumps(asked))
    flags = ("--agent-command", "x {prompt}", "--workspace", tmp_path / "w", "--dry-run", "--price-in", 1)
    printed = run("triggers", skill, *flags, "--price-out", 5).stdout
    assert re.search(r"^at most +46 +46 +>=\d+ +>=\$0\.\d{4} +unknown$", printed, re.MULTILINE)
    assert "warning: 3 queries that should not: with fewer than 10 of each kind" in printed
    assert "that should trigger: with fewer" not in printed
    assert [line for line in printed.splitlines() if len(line) > 80] == []
