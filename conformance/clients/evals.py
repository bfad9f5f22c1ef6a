"""Test `skillserve eval` with real agents against a scripted model: `make eval-agents`.

Each agent performs two cases with the skill, in its own folder and from this server, and without it; Claude Code
performs them with an earlier version too.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from conformance.clients.agent_tests import AgentTest
from conformance.clients.eval_inside import BASELINE
from conformance.clients.eval_script import DATUM, OLD_DATUM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["faults_of_eval"]

HALF = 0.5
"""Without the datum of the present version, one of two assertions passes."""

CASES = ("eval-husum", "eval-whitby")
FILES = ("answer.txt", "eval_metadata.json", "grading.json", "outcome.json", "timing.json", "transcript.jsonl")


def faults_of_eval(root: Path, found: dict[str, Any], mode: str) -> Iterator[str]:
    """Yield what is wrong in the report of an eval, and in the files that it has left."""
    arm = "old_skill" if mode == BASELINE else "without_skill"
    iteration = root / "workspace/iteration-1"
    rates = {name: found["run_summary"][name]["pass_rate"]["mean"] for name in ("with_skill", arm)}
    expected = {"with_skill": 1.0, arm: HALF}
    if found["errors"] or rates != expected or found["run_summary"]["delta"]["pass_rate"] != HALF:
        yield f"{found['errors']} errors, pass rates {rates}: {found['notes']}"
    if not found["notes"][0].startswith("Verdict: no verdict."):
        yield f"two cases carry a verdict: {found['notes'][0]}"
    if any("never loaded" in note for note in found["notes"]):
        yield f"a run did not load the skill: {found['notes']}"
    if json.loads((iteration / "benchmark.json").read_text(encoding="utf-8"))["runs"] != found["runs"]:
        yield "benchmark.json has other runs than the report"
    last = {"with_skill": DATUM, "old_skill": OLD_DATUM}
    for place in (iteration / case / each for case in CASES for each in ("with_skill/run-1", f"{arm}/run-1")):
        if missing := [name for name in FILES if not (place / name).is_file()]:
            yield f"{place.relative_to(root)} has no {', '.join(missing)}"
        plan = place / "outputs/plan.txt"
        written = plan.read_text(encoding="utf-8") if plan.is_file() else ""
        if not written or [each for each in (DATUM, OLD_DATUM) if each in written] != [
            each for name, each in last.items() if name == place.parent.name
        ]:
            yield f"{plan.relative_to(root)}: {written!r}"
        if not json.loads((place / "timing.json").read_text(encoding="utf-8"))["total_tokens"]:
            yield f"{place.relative_to(root)}: no tokens"


EVALS = AgentTest("evals", "conformance.clients.eval_inside", faults_of_eval, {"claude": BASELINE})

if __name__ == "__main__":
    sys.exit(EVALS.main(__doc__))
