"""Test `skillserve triggers` with real agents against a scripted model: `make trigger-agents`.

Each agent answers the queries with the skill in its own folder and with this server. With Claude Code, a description is
optimized too, by a process that is killed once and continued.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from conformance.clients.install import NotInstallableError, install
from conformance.clients.sandbox import is_possible, run_inside
from conformance.clients.trigger_agents import TRIGGER_AGENTS
from conformance.clients.trigger_script import BETTER, HARD, NEAR, OLD, SKILL
from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["faults_of_measurement", "faults_of_optimization"]

MODULE = "conformance.clients.trigger_inside"
OPTIMIZED = "claude"


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


async def _check(agent: str, mode: str, folder: Path) -> list[str]:
    root = folder / f"{agent}-{mode}"
    root.mkdir()
    await run_inside(agent, mode, root, MODULE)
    text = (root / "results.json").read_text(encoding="utf-8")
    if not text.strip():
        return [(root / "log.txt").read_text(encoding="utf-8")[-600:]]
    found = json.loads(text)
    return [*(faults_of_optimization(root, found) if mode == "optimize" else faults_of_measurement(found))]


async def _main(agents: list[str], folder: Path) -> int:
    if not await is_possible():
        print("skipped: this system has no namespaces of networks and processes, or forbids them (unshare)")
        return 0
    failed = False
    for agent in agents:
        try:
            await install(agent)
        except NotInstallableError as error:
            print(f"{agent}: skipped: {error}")
            continue
        for mode in ("folder", "server", *(["optimize"] if agent == OPTIMIZED else [])):
            try:
                faults = await _check(agent, mode, folder)
            except CheckError as error:
                faults = [str(error)]
            failed = failed or bool(faults)
            print(f"{agent} {mode}: {'; '.join(faults) or 'as expected'}", flush=True)
    return int(failed)


def main() -> int:
    """Test the agents that the command line names; return 1 if a result is not as expected."""
    parser = argparse.ArgumentParser("triggers", description=__doc__)
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"all by default: {' '.join(TRIGGER_AGENTS)}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the results in this folder")
    options = parser.parse_args()
    for name in options.agents:
        if name not in TRIGGER_AGENTS:
            parser.error(f"there is no agent {name!r}; choose from {' '.join(TRIGGER_AGENTS)}")
    with tempfile.TemporaryDirectory(prefix="skillserve-triggers-", ignore_cleanup_errors=True) as scratch:
        return anyio.run(_main, options.agents or [*TRIGGER_AGENTS], Path(options.keep or scratch).resolve())


if __name__ == "__main__":
    sys.exit(main())
