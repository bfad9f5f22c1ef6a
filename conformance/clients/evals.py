"""Test `skillserve eval` with real agents against a scripted model: `make eval-agents`.

Each agent performs two cases with the skill, in its own folder and from this server, and without it; Claude Code
performs them with an earlier version too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from conformance.clients.eval_inside import BASELINE
from conformance.clients.eval_script import DATUM, OLD_DATUM
from conformance.clients.install import NotInstallableError, install
from conformance.clients.sandbox import is_possible, run_inside
from conformance.clients.trigger_agents import TRIGGER_AGENTS
from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["faults_of_eval"]

MODULE = "conformance.clients.eval_inside"
COMPARED = "claude"
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
    for place in (iteration / case / each for case in CASES for each in ("with_skill", arm)):
        if missing := [name for name in FILES if not (place / name).is_file()]:
            yield f"{place.relative_to(root)} has no {', '.join(missing)}"
        plan = place / "outputs/plan.txt"
        written = plan.read_text(encoding="utf-8") if plan.is_file() else ""
        if not written or [each for each in (DATUM, OLD_DATUM) if each in written] != [
            each for name, each in last.items() if name == place.name
        ]:
            yield f"{plan.relative_to(root)}: {written!r}"
        if not json.loads((place / "timing.json").read_text(encoding="utf-8"))["total_tokens"]:
            yield f"{place.relative_to(root)}: no tokens"


async def _check(agent: str, mode: str, folder: Path) -> list[str]:
    root = folder / f"{agent}-{mode}"
    root.mkdir(parents=True)
    await run_inside(agent, mode, root, MODULE)
    text = (root / "results.json").read_text(encoding="utf-8")
    if not text.strip():
        return [(root / "log.txt").read_text(encoding="utf-8")[-600:]]
    return [*faults_of_eval(root, json.loads(text), mode)]


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
        for mode in ("folder", "server", *([BASELINE] if agent == COMPARED else [])):
            try:
                faults = await _check(agent, mode, folder)
            except CheckError as error:
                faults = [str(error)]
            failed = failed or bool(faults)
            print(f"{agent} {mode}: {'; '.join(faults) or 'as expected'}", flush=True)
    return int(failed)


def main() -> int:
    """Test the agents that the command line names; return 1 if a result is not as expected."""
    parser = argparse.ArgumentParser("evals", description=__doc__)
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"all by default: {' '.join(TRIGGER_AGENTS)}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the results in this folder")
    options = parser.parse_args()
    for name in options.agents:
        if name not in TRIGGER_AGENTS:
            parser.error(f"there is no agent {name!r}; choose from {' '.join(TRIGGER_AGENTS)}")
    with tempfile.TemporaryDirectory(prefix="skillserve-evals-", ignore_cleanup_errors=True) as scratch:
        return anyio.run(_main, options.agents or [*TRIGGER_AGENTS], Path(options.keep or scratch).resolve())


if __name__ == "__main__":
    sys.exit(main())
