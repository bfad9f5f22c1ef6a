"""Read all results of a workspace: that of skillserve, of skill-creator, or a single iteration of either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from server.capabilities.evals.report.folder import (
    Budget,
    WorkspaceFolder,
    count,
    first,
    natural,
    number,
    read_outputs,
    read_transcript,
    text,
    texts,
)
from server.capabilities.evals.report.model import Case, Iteration, Results, Run, ShownComparison, Status
from server.capabilities.evals.report.scores import read_scores, read_verdict
from server.capabilities.evals.report.trigger_results import read_triggers
from skills_core.diagnostics import printable
from skills_core.disk.files import Reader
from skills_core.errors import SkillsError
from skills_core.evals.agents.kind import record, records
from skills_core.evals.feedback import FEEDBACK_FILE, read_feedback
from skills_core.evals.grading.results import results_from_json

if TYPE_CHECKING:
    from skills_core.evals.feedback import Feedback
    from skills_core.evals.grading.results import AssertionResult


_RESULTS = ("grading.json", "timing.json", "outcome.json", "transcript.jsonl")

_MILLISECONDS = 1000

_STATES = {"done": Status.DONE, "error": Status.ERROR, "timeout": Status.TIMEOUT}


class RunPlace(NamedTuple):
    """Where a run lies."""

    arm: str
    number: int
    path: str


def run_folders(folder: WorkspaceFolder, case: str) -> list[RunPlace]:
    """Return the folders of runs in the folder of a case: `ARM/run-K`, or `ARM` for a single run."""
    found = []
    for arm in folder.folders(case):
        entries = folder.entries(f"{case}/{arm}")
        runs = [entry.name for entry in entries if entry.is_folder and _run_number(entry.name) is not None]
        found += [RunPlace(arm, _run_number(name) or 0, f"{case}/{arm}/{name}") for name in runs]
        names = {entry.name for entry in entries}
        if not runs and ("outputs" in names or names.intersection(_RESULTS)):
            found.append(RunPlace(arm, 1, f"{case}/{arm}"))
    return found


def _run_number(name: str) -> int | None:
    return count(name.removeprefix("run-")) if name.startswith("run-") else None


def read_run(folder: WorkspaceFolder, place: RunPlace, budget: Budget | None) -> Run:
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
        path=place.path,
        checks=results_from_json(grading),
        seconds=_seconds(timing, record(grading.get("timing"))),
        tokens=number(timing.get("total_tokens")),
        cost=printed_cost if cost is None else cost,
        tool_calls=_either(
            number(record(grading.get("execution_metrics")).get("total_tool_calls")), outcome.get("tool_calls")
        ),
        outputs=outputs,
        outputs_note=note,
        transcript=transcript,
        notes=_user_notes(record(grading.get("user_notes_summary"))) or _outcome_notes(outcome),
    )
    run = replace(run, rate=_rate(run.checks, record(grading.get("summary"))))
    status = _STATES.get(text(outcome.get("status")))
    if status is None:
        # A workspace of another tool has no outcomes: what is graded is done.
        status = Status.DONE if run.rate is not None else Status.PENDING
    digest = text(outcome.get("outputs_digest"))
    loaded = outcome.get("skill_loaded")
    return replace(
        run,
        status=status,
        error=text(outcome.get("error")),
        attempt=count(outcome.get("attempt")) or 1,
        skill_loaded=loaded if isinstance(loaded, bool) else None,
        outputs_digest=digest,
    )


def merged(run: Run, entry: Mapping[str, Any]) -> Run:
    """Return a run with what only `benchmark.json` has of it."""
    result = record(entry.get("result"))
    checks = run.checks or results_from_json(entry)
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


def _rate(checks: tuple[AssertionResult, ...], summary: Mapping[str, Any]) -> float | None:
    """Return the share of passed assertions, by the grades themselves if there are any."""
    if checks:
        return sum(check.passed for check in checks) / len(checks)
    recorded = number(summary.get("pass_rate"))
    # A summary of no assertions is not a grade.
    return recorded if recorded is not None and 0 <= recorded <= 1 and summary.get("total") != 0 else None


def _seconds(timing: Mapping[str, Any], graded: Mapping[str, Any]) -> float | None:
    milliseconds = number(timing.get("duration_ms"))
    if milliseconds is not None:
        return milliseconds / _MILLISECONDS
    return _either(number(timing.get("total_duration_seconds")), graded.get("total_duration_seconds"))


def _user_notes(summary: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(note for name in ("uncertainties", "needs_review", "workarounds") for note in texts(summary.get(name)))


def _outcome_notes(outcome: Mapping[str, Any]) -> tuple[str, ...]:
    return (*texts(first(outcome, "error", "grading_error")), *texts(outcome.get("notes")))


_FACTS = (
    ("Model", ("model", "executor_model")),
    ("Agent", ("agent",)),
    ("Graded by", ("grader_model", "analyzer_model")),
    ("Old skill", ("baseline",)),
    ("Time", ("timestamp",)),
    ("Runs in each arm", ("runs_per_configuration",)),
)


def is_iteration(folder: WorkspaceFolder, relative: str) -> bool:
    """Tell whether a folder holds cases, or the results of some."""
    names = {entry.name for entry in folder.entries(relative)}
    return "benchmark.json" in names or any(name.startswith("eval-") for name in names)


def read_iteration(
    folder: WorkspaceFolder, relative: str, position: int, budget: Budget | None, only: str | None = None
) -> Iteration:
    """Return the iteration in a folder; without a budget, without outputs and transcripts.

    With the key of a case as `only`, the iteration has this case alone, or none.
    """
    benchmark = folder.json(f"{relative}/benchmark.json".lstrip("/"))
    config = folder.json(f"{relative}/config.json".lstrip("/"))
    values = _of_this_tool(record(benchmark), record(config)) if config is not None else record(benchmark)
    metadata = record(values.get("metadata"))
    order = first(metadata, "evals_run") or record(config).get("evals_run")
    cases = _cases(folder, relative, records(values.get("runs")), budget, texts(order), only)
    feedback = read_feedback(folder.json(f"{relative}/{FEEDBACK_FILE}".lstrip("/")), {case.key for case in cases})
    started = config is not None
    number_of = count(relative.rpartition("-")[2])
    iteration = Iteration(
        number=position if number_of is None else number_of,
        label=printable(relative) or folder.name,
        folder=relative,
        cases=tuple(_with_feedback(case, feedback) for case in cases),
        facts=tuple((label, shown) for label, names in _FACTS if (shown := text(first(metadata, *names)))),
        notes=_notes(values),
        # Only our own runs write down what they were started with before there is a result.
        complete=metadata.get("status") != "running" if benchmark is not None else not started,
        stopped=text(values.get("stopped")),
    )
    return replace(iteration, scores=read_scores(values, iteration))


def _of_this_tool(benchmark: Mapping[str, Any], config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `benchmark.json` of an iteration that we began, without what skill-creator's aggregator replaced.

    That has differences as text, 0 for what is unknown, and placeholders for the models. The runs are all there.
    """
    if not isinstance(record(record(benchmark.get("run_summary")).get("delta")).get("pass_rate"), str):
        return benchmark
    known = record(config.get("identity"))
    metadata = record(benchmark.get("metadata"))
    own = {"timestamp": metadata.get("timestamp"), "runs_per_configuration": known.get("runs")}
    return {"metadata": {**own, "agent": config.get("agent")}, "notes": benchmark.get("notes")}


def _with_feedback(case: Case, feedback: Feedback) -> Case:
    said = feedback.on(case.key, case.outputs_digest)
    return replace(case, feedback=said.now, replaced_feedback=said.replaced)


def _notes(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the notes that say more than the verdict and the patterns."""
    if isinstance(values.get("remarks"), list):
        return texts(values["remarks"])
    verdict = read_verdict(record(values.get("effect")))
    return tuple(note for note in texts(values.get("notes")) if verdict is None or verdict.reason not in note)


def _cases(
    folder: WorkspaceFolder,
    relative: str,
    entries: list[Mapping[str, Any]],
    budget: Budget | None,
    order: Sequence[str],
    only: str | None,
) -> list[Case]:
    """Return the cases: first those whose ids `order` has, in the order of their file."""
    top = f"{relative}/runs" if "runs" in folder.folders(relative) else relative
    names = [name for name in folder.folders(top) if only is None or printable(name) == only]
    share = budget.share(len(names)) if budget else None
    found = [_case(folder, top, name, share) for name in names]
    cases = [case for case in found if case is not None]
    if not cases:
        return [case for case in _of_benchmark(entries) if only is None or case.key == only]
    places = {identifier: place for place, identifier in reversed([*enumerate(order)])}
    cases.sort(key=lambda found: places.get(found[1], len(order)))
    return [_completed(case, identifier, entries) for case, identifier in cases]


def _case(folder: WorkspaceFolder, top: str, name: str, budget: Budget | None) -> tuple[Case, str] | None:
    """Return the case in a folder and its id; None for a folder of something else."""
    path = f"{top}/{name}".lstrip("/")
    metadata = record(folder.json(f"{path}/eval_metadata.json"))
    runs = run_folders(folder, path)
    if not runs and not (metadata or name.startswith("eval-")):
        return None
    # skill-creator's agents write it beside the run, too.
    places = [path.rpartition("/")[0] for _, _, path in runs] + [path for _, _, path in runs]
    others = (record(folder.json(f"{place}/eval_metadata.json")) for place in places)
    metadata = metadata or next(filter(None, others), {})
    identifier = text(metadata.get("eval_id")) or name.removeprefix("eval-")
    shares = [budget.share(len(runs)) if budget else None for _ in runs]
    case = Case(
        key=printable(name),
        name=text(metadata.get("eval_name")) or printable(name.removeprefix("eval-")),
        prompt=text(metadata.get("prompt")),
        expected=text(metadata.get("expected_output")),
        assertions=_assertions(metadata),
        runs=tuple(read_run(folder, run, share) for run, share in zip(runs, shares, strict=True)),
        comparison=_comparison(folder, path),
    )
    return case, identifier


def _assertions(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    found = first(metadata, "assertions", "expectations")
    values = found if isinstance(found, list) else []
    return tuple(text(each.get("text")) if isinstance(each, dict) else text(each) for each in values)


def _comparison(folder: WorkspaceFolder, path: str) -> ShownComparison | None:
    names = [entry.name for entry in folder.entries(path) if entry.name.startswith("comparison")]
    for name in [name for name in names if name.endswith(".json")][-1:]:
        found = record(folder.json(f"{path}/{name}"))
        if found:
            details = tuple((name, shown) for name in ("A", "B", "model") if (shown := text(found.get(name))))
            return ShownComparison(
                text(found.get("winner")), text(found.get("reasoning")), details, tuple(_rubric(found.get("rubric")))
            )
    return None


def _rubric(value: Any) -> Iterator[tuple[str, str, str]]:  # noqa: ANN401 - JSON
    """Yield criterion and scores, from a list of criteria, or from skill-creator's sides with groups of criteria."""
    for each in records(value):
        yield text(each.get("criterion")), text(each.get("A")), text(each.get("B"))
    ours, theirs = (record(record(value).get(side)) for side in ("A", "B"))
    for name in {**ours, **theirs}:
        groups = record(ours.get(name)), record(theirs.get(name))
        for criterion in {**groups[0], **groups[1]}:
            yield text(criterion), text(groups[0].get(criterion)), text(groups[1].get(criterion))
        if not any(groups):
            yield text(name).replace("_", " "), text(ours.get(name)), text(theirs.get(name))


def _completed(case: Case, identifier: str, entries: Iterable[Mapping[str, Any]]) -> Case:
    """Return a case whose runs have what only the benchmark has of them."""
    own = {
        (text(entry.get("configuration")), count(entry.get("run_number")) or 1): entry
        for entry in entries
        if text(entry.get("eval_id")) == identifier or text(entry.get("eval_name")) in {case.name, case.key}
    }
    runs = (merged(run, own[run.arm, run.number]) if (run.arm, run.number) in own else run for run in case.runs)
    return replace(case, runs=tuple(runs))


def _of_benchmark(entries: Iterable[Mapping[str, Any]]) -> list[Case]:
    """Return the cases of a benchmark whose folders are not there."""
    found: dict[str, list[Run]] = {}
    names: dict[str, str] = {}
    for entry in entries:
        identifier = text(first(entry, "eval_id", "eval_name"))
        names[identifier] = text(entry.get("eval_name")) or identifier
        run = Run(text(entry.get("configuration")) or "run", count(entry.get("run_number")) or 1, "")
        found.setdefault(identifier, []).append(merged(run, entry))
    keys = sorted(found, key=natural)
    return [Case(key=f"eval-{key}", name=names[key], runs=tuple(found[key])) for key in keys]


_MAX_ITERATIONS = 200


class WorkspaceError(SkillsError):
    """A folder has no results of evals or of trigger queries."""


def read_workspace(root: Path, *, details: bool = True) -> Results:
    """Return the results in a workspace; files that cannot be used are named in its `problems`.

    Without `details`, there are no outputs and no transcripts, which `read_case` returns of a case.

    Raises:
        WorkspaceError: there is no such folder, or it holds no results.
    """
    if not root.is_dir():
        raise WorkspaceError(
            f"{root}: there is no such folder; name a workspace, such as my-skill-workspace, which `skillserve eval` "
            "or `skillserve triggers` writes beside the skill"
        )
    with Reader() as reader:
        folder = WorkspaceFolder(root, reader)
        return _workspace(folder, root, details=details)


class ReadCase(NamedTuple):
    """A case of the newest iteration with its outputs and transcripts; the iteration has this case alone.

    `earlier` is the feedback on the case in the iteration before.
    """

    iteration: Iteration
    case: Case
    earlier: str | None


def read_case(root: Path, key: str) -> ReadCase | None:
    """Return a case of the newest iteration; None if there is none of this key. No other case is read."""
    with Reader() as reader:
        folder = WorkspaceFolder(root, reader)
        found = [read_iteration(folder, name, 1, None, key) for name in iteration_names(folder)[-2:-1]]
        for name in iteration_names(folder)[-1:]:
            iteration = read_iteration(folder, name, 1, Budget(), key)
            for case in iteration.cases:
                earlier = [each.feedback for before in found for each in before.cases]
                return ReadCase(iteration, case, next(iter(earlier), None) or None)
    return None


def iteration_names(folder: WorkspaceFolder) -> list[str]:
    """Return the names of the iterations in a workspace, the oldest first; the folder itself if it is one."""
    named = [name for name in folder.folders() if name.startswith("iteration-")]
    if not named and is_iteration(folder, ""):
        return [""]
    # A folder without a number, such as a copy that a person keeps, is never the newest.
    return sorted(named, key=lambda name: (count(name.rpartition("-")[2]) or 0, natural(name)))


def _workspace(folder: WorkspaceFolder, root: Path, *, details: bool) -> Results:
    names, numbered = folder.folders(), iteration_names(folder)
    kept = numbered[-_MAX_ITERATIONS:]
    # The report shows outputs and transcripts of the newest iteration alone.
    iterations = tuple(
        read_iteration(folder, name, place, Budget() if details and place == len(kept) else None)
        for place, name in enumerate(kept, 1)
    )
    places = ["", *sorted((name for name in names if name not in numbered), key=natural)]
    if "" in numbered:
        places = [""]
    # Only the last results are shown with transcripts.
    last = next((name for name in reversed(places) if read_triggers(folder, name, 0) is not None), None)
    found = (
        read_triggers(folder, name, place, Budget() if name == last else None) for place, name in enumerate(places)
    )
    triggers = tuple(each for each in found if each is not None)[-_MAX_ITERATIONS:]
    if not iterations and not triggers:
        raise WorkspaceError(
            f"{root}: no results here; expected folders such as iteration-1 (from `skillserve eval`) or triggers-1 "
            "(from `skillserve triggers`)"
        )
    named = next((each.skill for each in reversed(triggers) if each.skill), "")
    return Results(
        _skill_name(folder, kept) or named or folder.name.removesuffix("-workspace"),
        iterations,
        triggers,
        tuple(dict.fromkeys(folder.problems)),
    )


def _skill_name(folder: WorkspaceFolder, iterations: list[str]) -> str:
    for name in reversed(iterations):
        found = record(folder.json(f"{name}/benchmark.json".lstrip("/")))
        given = text(first(record(found.get("metadata")), "skill_name"))
        if given and not given.startswith("<"):
            return given
    return ""
