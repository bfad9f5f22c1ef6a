"""Run a scenario of the official conformance suite and evaluate the results that it writes as JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from conformance.outcome import Outcome
from conformance.processes import HERE, CheckError, Place, run, tail
from conformance.scenarios import NOT_FOR_A_PRODUCT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.scenarios import Exemption, Scenario

__all__ = ["NODE", "SUITE", "judge", "run_scenario"]

NODE = HERE / "node_modules/.bin/node"
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"


class _CheckResult(TypedDict, total=False):
    """The fields of a check in the suite's results that are used here."""

    id: str
    status: str
    errorMessage: str


async def run_scenario(scenario: Scenario, revision: str, url: str, place: Place) -> Outcome:
    """Run a scenario against the server at `url`.

    Raises:
        CheckError: The suite wrote no results.
    """
    folder = place.folder(f"results/{scenario.name}-{revision}")
    words = [str(NODE), str(SUITE), "server", "--url", url, "--scenario", scenario.name, "--output-dir", str(folder)]
    if revision:
        words += ["--spec-version", revision]
    finished = await run(words, place)
    written = sorted(folder.glob("*/checks.json"))
    if len(written) != 1:
        raise CheckError(f"the suite wrote {len(written)} results and ended with {finished.code}: {tail(finished.err)}")
    results: list[_CheckResult] = json.loads(written[0].read_text(encoding="utf-8"))
    outcome = judge(results, NOT_FOR_A_PRODUCT.get(scenario.name, {}))
    failed = any(check["status"] == "FAILURE" for check in results)
    if finished.code != int(failed):
        fault = f"the suite ended with {finished.code}, which its results do not explain: {tail(finished.err)}"
        return Outcome(outcome.passed, outcome.total, (*outcome.faults, fault), outcome.exempt)
    return outcome


def judge(results: Sequence[_CheckResult], exemptions: Mapping[str, Exemption]) -> Outcome:
    """Count the checks; every check without success is a fault, including warnings and skipped checks."""
    # Checks with the status INFO have no verdict.
    judged = [check for check in results if check["status"] != "INFO"]
    statuses = Counter(check["status"] for check in judged)
    faults = [
        f"{check['id']}: {check['status'].lower()}: {check.get('errorMessage', 'no message')}"
        for check in judged
        if check["status"] != "SUCCESS" and not _is_exempt(check, exemptions)
    ]
    for name in exemptions:
        found = [check["status"] for check in judged if check["id"] == name]
        if not found:
            faults.append(f"{name}: is exempt, but is missing from the results; remove the exemption")
        elif "SUCCESS" in found:
            faults.append(f"{name}: is exempt, but passes; remove the exemption")
    exempt = sum(_is_exempt(check, exemptions) for check in judged)
    return Outcome(statuses["SUCCESS"], len(judged) - exempt, tuple(faults), exempt)


def _is_exempt(check: _CheckResult, exemptions: Mapping[str, Exemption]) -> bool:
    exemption = exemptions.get(check["id"])
    if exemption is None or check["status"] == "SUCCESS":
        return False
    return exemption.message in check.get("errorMessage", "")
