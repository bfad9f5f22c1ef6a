"""Test `skillserve triggers` with real agents against a scripted model: `make trigger-agents`.

Each agent answers the queries with the skill in its own folder and with this server. With Claude Code, a description is
optimized too, by a process that is killed once and continued.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from conformance.clients.agent_tests import AgentTest
from conformance.clients.trigger_script import BETTER, HARD, NEAR, OLD, SKILL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["faults_of_measurement", "faults_of_optimization", "faults_of_triggers"]

OPTIMIZE = "optimize"


def faults_of_measurement(found: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong in the results under the old description, by which the model goes."""
    expected_to_fail = {*HARD, *NEAR}
    for result in found["results"]:
        if result["errors"] or result["pass"] is not (result["query"] not in expected_to_fail):
            yield f"{result['query']}: {result['outcomes']}"
    if not found["finished"]:
        yield f"not finished: {found['summary']['reason']}"


def faults_of_optimization(root: Path, found: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong in the results of an optimization that was killed once, and in what it has left."""
    decision = found["decision"]
    if not decision["adopted"] or decision["description"] != BETTER:
        yield f"not adopted: {decision['reason']}"
    main = (root / SKILL / "SKILL.md").read_text(encoding="utf-8")
    before = f"description: >-\n  {OLD}\n"
    if main.count(BETTER) != 1 or OLD in main or "# The port authority reads this.\n" not in main:
        yield f"SKILL.md has other changes than {before!r}"
    lines = (root / "workspace/triggers-1/runs.jsonl").read_text(encoding="utf-8").splitlines()
    keys = [json.loads(line)["key"] for line in lines]
    if len(keys) != len(set(keys)):
        yield "a run that was done before the process was killed was made again"
    sealed = {each["query"] for side in ("old", "new") for each in decision["test"][side]["results"]}
    hidden = sealed | {each["query"] for each in found["results"] if each["split"] == "validation"}
    for line in (root / "requests.jsonl").read_text(encoding="utf-8").splitlines():
        if "current_description" in line and any(query in line for query in hidden):
            yield "a request for a revision has a query of validation or of the test"


def faults_of_triggers(root: Path, found: dict[str, Any], mode: str) -> Iterator[str]:
    """Yield what is wrong in the results of a mode."""
    return faults_of_optimization(root, found) if mode == OPTIMIZE else faults_of_measurement(found)


TRIGGERS = AgentTest("triggers", "conformance.clients.trigger_inside", faults_of_triggers, {"claude": (OPTIMIZE,)})

if __name__ == "__main__":
    sys.exit(TRIGGERS.main(__doc__))
