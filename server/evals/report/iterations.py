"""One iteration: its cases from their folders, completed by `benchmark.json`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from server.evals.report.fields import count, first, record, records, text, texts
from server.evals.report.folder import natural
from server.evals.report.judgements import read_judgement
from server.evals.report.model import Case, Comparison, Iteration, Run
from server.evals.report.runs import merged, read_run, run_folders
from skills_core.diagnostics import printable
from skills_core.evals.feedback import FEEDBACK_FILE, read_feedback

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from server.evals.report.folder import Folder
    from server.evals.report.outputs import Budget
    from skills_core.evals.feedback import Feedback

__all__ = ["is_iteration", "read_iteration"]

_FACTS = (
    ("Model", ("model", "executor_model")),
    ("Agent", ("agent",)),
    ("Graded by", ("grader_model", "analyzer_model")),
    ("Old skill", ("baseline",)),
    ("Time", ("timestamp",)),
    ("Runs in each arm", ("runs_per_configuration",)),
)


def is_iteration(folder: Folder, relative: str) -> bool:
    """Tell whether a folder holds cases, or the results of some."""
    names = {entry.name for entry in folder.entries(relative)}
    return "benchmark.json" in names or any(name.startswith("eval-") for name in names)


def read_iteration(folder: Folder, relative: str, position: int, budget: Budget | None) -> Iteration:
    """Return the iteration in a folder; without a budget, without outputs and transcripts."""
    benchmark = folder.json(f"{relative}/benchmark.json".lstrip("/"))
    values, metadata = record(benchmark), record(record(benchmark).get("metadata"))
    config = folder.json(f"{relative}/config.json".lstrip("/"))
    order = first(metadata, "evals_run") or record(config).get("evals_run")
    cases = _cases(folder, relative, records(values.get("runs")), budget, texts(order))
    feedback = read_feedback(folder.json(f"{relative}/{FEEDBACK_FILE}".lstrip("/")), {case.key for case in cases})
    started = config is not None
    number = count(relative.rpartition("-")[2])
    return Iteration(
        number=position if number is None else number,
        label=printable(relative) or folder.name,
        folder=relative,
        cases=tuple(_with_feedback(case, feedback) for case in cases),
        facts=tuple((label, shown) for label, names in _FACTS if (shown := text(first(metadata, *names)))),
        notes=_notes(values),
        judgement=read_judgement(record(values.get("intervals"))),
        # Only our own runs write down what they were started with before there is a result.
        complete=metadata.get("status") != "running" if benchmark is not None else not started,
    )


def _with_feedback(case: Case, feedback: Feedback) -> Case:
    said = feedback.on(case.key, case.outputs_digest)
    return replace(case, feedback=said.now, replaced_feedback=said.replaced)


def _notes(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the notes that say more than the verdict and the patterns."""
    if isinstance(values.get("remarks"), list):
        return texts(values["remarks"])
    judged = read_judgement(record(values.get("intervals")))
    return tuple(note for note in texts(values.get("notes")) if judged is None or judged.words not in note)


def _cases(
    folder: Folder, relative: str, entries: list[Mapping[str, Any]], budget: Budget | None, order: Sequence[str]
) -> list[Case]:
    """Return the cases: first those whose ids `order` has, in the order of their file."""
    top = f"{relative}/runs" if "runs" in folder.folders(relative) else relative
    found = [_case(folder, top, name, budget) for name in folder.folders(top)]
    cases = [case for case in found if case is not None]
    if not cases:
        return _of_benchmark(entries)
    places = {identifier: place for place, identifier in reversed([*enumerate(order)])}
    cases.sort(key=lambda found: places.get(found[1], len(order)))
    return [_completed(case, identifier, entries) for case, identifier in cases]


def _case(folder: Folder, top: str, name: str, budget: Budget | None) -> tuple[Case, str] | None:
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
    case = Case(
        key=printable(name),
        name=text(metadata.get("eval_name")) or printable(name.removeprefix("eval-")),
        prompt=text(metadata.get("prompt")),
        expected=text(metadata.get("expected_output")),
        assertions=_assertions(metadata),
        runs=tuple(read_run(folder, run, budget) for run in runs),
        comparison=_comparison(folder, path),
    )
    return case, identifier


def _assertions(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    found = first(metadata, "assertions", "expectations")
    values = found if isinstance(found, list) else []
    return tuple(text(each.get("text")) if isinstance(each, dict) else text(each) for each in values)


def _comparison(folder: Folder, path: str) -> Comparison | None:
    names = [entry.name for entry in folder.entries(path) if entry.name.startswith("comparison")]
    for name in [name for name in names if name.endswith(".json")][-1:]:
        found = record(folder.json(f"{path}/{name}"))
        if found:
            details = tuple((name, shown) for name in ("A", "B", "model") if (shown := text(found.get(name))))
            return Comparison(
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
