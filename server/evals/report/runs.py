"""One run of a case: its grades, time, tokens, outcome, output files and transcript."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from server.evals.report.fields import count, first, number, record, records, text, texts, truth
from server.evals.report.model import Check, Run, Status
from server.evals.report.outputs import read_outputs
from server.evals.report.transcripts import read_transcript
from skills_core.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.evals.report.folder import Folder
    from server.evals.report.outputs import Budget

__all__ = ["RunFolder", "merged", "read_checks", "read_run", "run_folders"]

_RESULTS = ("grading.json", "timing.json", "outcome.json", "transcript.jsonl")

_MILLISECONDS = 1000

_STATES = {"done": Status.DONE, "error": Status.ERROR, "timeout": Status.TIMEOUT}


class RunFolder(NamedTuple):
    """Where a run lies."""

    arm: str
    number: int
    path: str


def run_folders(folder: Folder, case: str) -> list[RunFolder]:
    """Return the folders of runs in the folder of a case: `ARM/run-K`, or `ARM` for a single run."""
    found = []
    for arm in folder.folders(case):
        entries = folder.entries(f"{case}/{arm}")
        runs = [entry.name for entry in entries if entry.is_folder and _run_number(entry.name) is not None]
        found += [RunFolder(arm, _run_number(name) or 0, f"{case}/{arm}/{name}") for name in runs]
        names = {entry.name for entry in entries}
        if not runs and ("outputs" in names or names.intersection(_RESULTS)):
            found.append(RunFolder(arm, 1, f"{case}/{arm}"))
    return found


def _run_number(name: str) -> int | None:
    return count(name.removeprefix("run-")) if name.startswith("run-") else None


def read_run(folder: Folder, place: RunFolder, budget: Budget | None) -> Run:
    """Return the run in a folder; what is not there yet is left open, and without a budget outputs and transcript."""
    grading, timing = (
        record(folder.json(f"{place.path}/grading.json")),
        record(folder.json(f"{place.path}/timing.json")),
    )
    outcome = record(folder.json(f"{place.path}/outcome.json"))
    outputs, note = read_outputs(folder, f"{place.path}/outputs", budget) if budget else ((), "")
    transcript, printed_cost = read_transcript(folder, place.path, budget)
    cost = number(first(timing, "total_cost_usd", "cost_usd"))
    run = Run(
        arm=printable(place.arm),
        number=place.number,
        path=printable(place.path),
        checks=read_checks(grading),
        seconds=_seconds(timing, record(grading.get("timing"))),
        tokens=number(timing.get("total_tokens")),
        cost=printed_cost if cost is None else cost,
        tool_calls=number(record(grading.get("execution_metrics")).get("total_tool_calls")),
        outputs=outputs,
        outputs_note=note,
        transcript=transcript,
        notes=_user_notes(record(grading.get("user_notes_summary"))),
    )
    run = replace(run, rate=_rate(run.checks, record(grading.get("summary"))))
    status = _STATES.get(text(outcome.get("status")))
    if status is None:
        # A workspace of another tool has no outcomes: what is graded is done.
        status = Status.DONE if run.rate is not None else Status.PENDING
    digest = text(outcome.get("outputs_digest"))
    return replace(run, status=status, error=text(outcome.get("error")), outputs_digest=digest)


def read_checks(grading: Mapping[str, Any]) -> tuple[Check, ...]:
    """Return the graded assertions, whichever of their names the file uses."""
    found = first(grading, "assertion_results", "expectations", "assertions")
    return tuple(
        Check(text(first(each, "text", "assertion", "name")), truth(each.get("passed")), text(each.get("evidence")))
        for each in records(found)
    )


def merged(run: Run, entry: Mapping[str, Any]) -> Run:
    """Return a run with what only `benchmark.json` has of it."""
    result = record(entry.get("result"))
    checks = run.checks or read_checks(entry)
    rate = run.rate if run.rate is not None else _rate(checks, result)
    return replace(
        run,
        checks=checks,
        rate=rate,
        status=Status.DONE if run.status is Status.PENDING and rate is not None else run.status,
        seconds=_either(run.seconds, result.get("time_seconds")),
        tokens=_either(run.tokens, result.get("tokens")),
        cost=_either(run.cost, first(result, "cost_usd", "total_cost_usd")),
        tool_calls=_either(run.tool_calls, result.get("tool_calls")),
        notes=run.notes or texts(entry.get("notes")),
    )


def _either(known: float | None, value: Any) -> float | None:  # noqa: ANN401 - JSON
    return number(value) if known is None else known


def _rate(checks: tuple[Check, ...], summary: Mapping[str, Any]) -> float | None:
    """Return the share of passed assertions, by the grades themselves if there are any."""
    graded = [check.passed for check in checks if check.passed is not None]
    if graded:
        return sum(graded) / len(graded)
    recorded = number(summary.get("pass_rate"))
    # A summary of no assertions is no grade.
    return recorded if recorded is not None and 0 <= recorded <= 1 and summary.get("total") != 0 else None


def _seconds(timing: Mapping[str, Any], graded: Mapping[str, Any]) -> float | None:
    milliseconds = number(timing.get("duration_ms"))
    if milliseconds is not None:
        return milliseconds / _MILLISECONDS
    return _either(number(timing.get("total_duration_seconds")), graded.get("total_duration_seconds"))


def _user_notes(summary: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(note for name in ("uncertainties", "needs_review", "workarounds") for note in texts(summary.get(name)))
