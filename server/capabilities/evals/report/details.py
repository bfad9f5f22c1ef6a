"""What the page shows of a case or a query when a reader opens it: JSON that its script renders as text.

A page that is one file holds these parts compressed, within a size that a browser opens at once; a part that does not
fit loses the ends of its texts, and says so. A served page asks for each part when it is opened, and gets all of it.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from server.capabilities.evals.report.folder import MAX_ENTRY, MAX_FILES, MAX_TEXT, shortened
from server.capabilities.evals.report.model import FileKind, Status
from server.capabilities.evals.report.scores import check_scores
from server.html.environment import visible
from server.html.words import amount, dollars, percent, size_text
from skills_core.diagnostics import agreeing, counted

if TYPE_CHECKING:
    from server.capabilities.evals.report.model import Case, Iteration, Run, ShownFile, ShownTranscript, TriggerSet
    from skills_core.evals.triggers.results import QueryResult

MAX_PARTS: Final = 1_500_000
"""Bytes of all parts in a page that is one file, as it holds them; images come on top where the runs are few."""

_MAX_IMAGES: Final = 8_000_000
_FEW_RUNS: Final = 200
# With more runs a page that is one file has no images, which do not compress.

_LIKELY_RATIO: Final = 14
# Texts hardly compress better, so a longer one is shortened before it is compressed.


class Bounds(NamedTuple):
    """How much of a case a part holds: characters of texts, and numbers of files and entries."""

    texts: int
    evidence: int
    files: int
    file: int
    entries: int
    entry: int


ALL: Final = Bounds(100_000, 100_000, MAX_FILES, MAX_TEXT, 60, MAX_ENTRY)
"""All that was read of a workspace."""

_STEPS: Final = (
    ALL,
    Bounds(20_000, 4000, 60, 16_384, 40, 2000),
    Bounds(8000, 1000, 30, 6000, 16, 800),
    Bounds(4000, 400, 16, 2500, 8, 400),
    Bounds(2000, 240, 10, 1400, 5, 240),
    Bounds(1200, 160, 8, 900, 3, 160),
    Bounds(800, 120, 6, 500, 2, 120),
    Bounds(500, 80, 4, 250, 1, 80),
    Bounds(300, 50, 3, 100, 0, 0),
    Bounds(200, 0, 0, 0, 0, 0),
)


class Parts:
    """Collects the parts of a page that is one file: each gets its share of what the ones before have left."""

    def __init__(self, parts: int, runs: int) -> None:
        self._waiting = parts
        self._left = MAX_PARTS
        self._images_left = _MAX_IMAGES if runs <= _FEW_RUNS else 0
        self.lines: list[str] = []
        """A line for each part: its name, and Base64 of compressed JSON, or an image as data."""

    def add_case(self, name: str, iteration: Iteration, case: Case, earlier: str | None) -> None:
        """Add what is shown of a case."""
        images = self._kept_images(name, case)
        self._add(name, lambda bounds: case_details(iteration, case, earlier, bounds, images))
        self.lines += [f"{image} {content}" for content, image in images.items()]

    def add_query(self, name: str, triggers: TriggerSet, query: QueryResult) -> None:
        """Add the transcripts of a query."""
        self._add(name, lambda bounds: query_details(triggers, query, bounds))

    def _add(self, name: str, details: Callable[[Bounds], Mapping[str, Any]]) -> None:
        share = self._left // max(1, self._waiting)
        self._waiting -= 1
        for bounds in _STEPS:
            raw = json_text({**details(bounds), "cut": bounds is not ALL}).encode()
            is_last = bounds is _STEPS[-1]
            if len(raw) > share * _LIKELY_RATIO and not is_last:
                continue
            packed = base64.b64encode(zlib.compress(raw, 6)).decode("ascii")
            if len(packed) <= share or is_last:
                # The least that there is of a part may be too long in a set of thousands.
                self.lines += [f"{name} {packed}"] if len(packed) <= self._left else []
                self._left -= len(packed)
                return

    def _kept_images(self, name: str, case: Case) -> Mapping[str, str]:
        """Return the names of the images for which there is room, by their content."""
        share, found = self._images_left // max(1, self._waiting), dict[str, str]()
        for file in (file for run in case.runs for file in run.outputs if file.kind is FileKind.IMAGE):
            if file.content and file.content not in found and len(file.content) <= share:
                found[file.content] = f"{name}-image-{len(found)}"
                share -= len(file.content)
                self._images_left -= len(file.content)
        return found


def json_text(value: Mapping[str, Any]) -> str:
    """Return a value as JSON in which what is hidden in texts is shown."""
    return json.dumps(_seen(value), ensure_ascii=False, separators=(",", ":"))


def _seen(value: Any) -> Any:  # noqa: ANN401 - JSON
    match value:
        case str():
            # Data of an image holds nothing hidden, and is long.
            return value if value.startswith("data:image/") else visible(value)
        case dict():
            return {name: _seen(each) for name, each in value.items()}
        case list() | tuple():
            return [_seen(each) for each in value]
    return value


def case_details(
    iteration: Iteration,
    case: Case,
    earlier: str | None = None,
    bounds: Bounds = ALL,
    images: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what is shown of a case; `images` names those that lie elsewhere by their content, None keeps all here."""
    arms = [arm for arm in iteration.arms if case.of(arm)]
    texts = [each.text for each in check_scores(case, arms)]
    places = {text: place for place, text in enumerate(texts)}
    return {
        "kind": "case",
        "key": case.key,
        "name": _cut(case.name, bounds.texts),
        "prompt": _cut(case.prompt, bounds.texts),
        "expected": _cut(case.expected, bounds.texts),
        "arms": [arm_name(arm) for arm in arms],
        "baseline": arms.index(iteration.baseline) if iteration.baseline in arms else None,
        "assertions": [_cut(text, bounds.texts) for text in texts],
        "runs": [
            {"arm": place, **_run(run, places, bounds, images)} for place, arm in enumerate(arms) for run in case.of(arm)
        ],
        "comparison": _comparison(case, bounds),
        "earlier": _cut(earlier or "", bounds.texts),
        "replaced": _cut((case.replaced_feedback or "").strip(), bounds.texts),
        "feedback": None if case.feedback is None else _cut(case.feedback, bounds.texts),
        "version": case.feedback_version,
        "outputs": case.outputs_digest,
    }


def _run(
    run: Run, places: Mapping[str, int], bounds: Bounds, images: Mapping[str, str] | None
) -> dict[str, Any]:
    kept = run.outputs[: bounds.files]
    left_out = len(run.outputs) - len(kept)
    notes = [run.outputs_note, f"{counted(left_out, 'more file')} in {run.path}." if left_out else ""]
    return {
        "number": run.number,
        "path": run.path,
        "state": run.status.value,
        "failed": run.failed,
        "error": _cut(run.error, bounds.texts),
        "said": "" if run.failed or run.status is Status.PENDING else run_numbers(run),
        "checks": [
            [places[check.text], check.passed, _cut(check.evidence, bounds.evidence)] for check in run.checks
        ],
        "files": [_file(file, run, bounds, images) for file in kept],
        "notes": [_cut(each, bounds.texts) for each in (*filter(None, notes), *run.notes)],
        "transcript": _transcript(run.transcript, f"{run.path}/transcript.jsonl", bounds),
    }


def _file(file: ShownFile, run: Run, bounds: Bounds, images: Mapping[str, str] | None) -> dict[str, Any]:
    content, note = file.content, file.note
    if file.kind is FileKind.IMAGE and images is not None and content:
        content = images.get(content, "")
        note = note if content else f"The image is not in this file: see {run.path}."
    elif file.kind is FileKind.TEXT and len(content) > bounds.file:
        content, note = content[: bounds.file], f"Shortened to {bounds.file:,} characters: see {run.path}."
    found = {"name": file.name, "kind": file.kind.value, "size": size_text(file.size), "content": content, "note": note}
    # What is shown needs no digest, but a shortened text may be equal as far as it is shown.
    return {**found, "digest": file.digest} if bounds.file else found


def _transcript(transcript: ShownTranscript, path: str, bounds: Bounds) -> dict[str, Any] | None:
    if not transcript:
        return None
    kept = shortened(transcript, bounds.entries, bounds.entry)
    return {"head": kept.head, "tail": kept.tail, "left_out": kept.left_out, "note": kept.note, "path": path}


def _comparison(case: Case, bounds: Bounds) -> dict[str, Any] | None:
    if case.comparison is None:
        return None
    return {
        "winner": _cut(case.comparison.winner, bounds.texts),
        "reasoning": _cut(case.comparison.reasoning, bounds.texts),
        "rubric": [[_cut(each, bounds.texts) for each in row] for row in case.comparison.rubric],
        "details": [[_cut(each, bounds.texts) for each in row] for row in case.comparison.details],
    }


def query_details(triggers: TriggerSet, query: QueryResult, bounds: Bounds = ALL) -> dict[str, Any]:
    """Return the transcripts of the runs of a query."""
    runs = zip(query.outcomes, query.transcripts, strict=False)
    found = [(place, outcome, triggers.transcripts.get(path)) for place, (outcome, path) in enumerate(runs, 1)]
    folder = f"{triggers.label}/transcripts"
    return {
        "kind": "query",
        "runs": [
            {"title": f"Run {place}: {outcome}", "transcript": _transcript(transcript, folder, bounds)}
            for place, outcome, transcript in found
            if transcript
        ],
    }


def run_numbers(run: Run) -> str:
    """Return the numbers of a run in words."""
    shown = [percent(run.rate)]
    shown += [f"{amount(run.seconds)} s"] * (run.seconds is not None)
    shown += [_number_of(run.tokens, "token"), _number_of(run.tool_calls, "tool call")]
    shown += [dollars(run.cost)] * (run.cost is not None)
    return ", ".join(filter(None, shown))


def _number_of(value: float | None, noun: str) -> str:
    """Return a number that may be a mean with its noun; empty if it is not known."""
    return "" if value is None else f"{amount(value)} {agreeing(1 if value == 1 else 2, noun, f'{noun}s')}"


def arm_name(arm: str) -> str:
    """Return an arm in words."""
    return arm.replace("_", " ")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"
