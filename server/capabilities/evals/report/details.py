"""What the page shows of a case or a query when a reader opens it: JSON that its script renders as text.

A page that is one file holds these parts compressed, within a size that a browser opens at once; a part that does not
fit loses the ends of its texts, and says so. A served page asks for each part when it is opened, and gets all of it.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from server.capabilities.evals.report.folder import shortened
from server.capabilities.evals.report.model import FileKind, ShownTranscript, Status
from server.capabilities.evals.report.scores import check_scores
from server.html.environment import visible
from server.html.words import amount, dollars, percent, size_text
from skills_core.diagnostics import agreeing, counted

if TYPE_CHECKING:
    from server.capabilities.evals.report.model import Case, Iteration, Run, ShownFile, TriggerSet
    from skills_core.evals.triggers.results import QueryResult

MAX_PARTS: Final = 1_600_000
"""Bytes of all parts in a page that is one file, as it holds them; images come on top where the runs are few."""

_MAX_IMAGES: Final = 8_000_000
_FEW_RUNS: Final = 200
# With more runs a page that is one file has no images, which do not compress.

_LIKELY_RATIO: Final = 6.0
# How well the first part is taken to compress; each further one is taken to compress as the one before.

_MARGIN: Final = 1.3
# A part that compresses so much better than the one before fits as well.


class Bounds(NamedTuple):
    """How much of a case a part holds: characters of texts, and numbers of files and entries.

    `evidence` is that of an assertion that failed, which is read first, `passed` that of one that passed.
    """

    texts: int
    evidence: int
    passed: int
    files: int
    file: int
    entries: int
    entry: int


_STEPS: Final = (
    Bounds(20_000, 4000, 4000, 60, 16_384, 40, 2000),
    Bounds(8000, 1000, 1000, 30, 6000, 16, 800),
    Bounds(4000, 400, 300, 16, 2500, 8, 400),
    Bounds(3000, 240, 160, 10, 1500, 5, 240),
    Bounds(3000, 200, 100, 8, 900, 3, 160),
    Bounds(2000, 160, 60, 6, 500, 2, 120),
    Bounds(2000, 120, 0, 4, 300, 1, 80),
    Bounds(1000, 100, 0, 3, 120, 0, 0),
    Bounds(1000, 60, 0, 2, 0, 0, 0),
    Bounds(400, 0, 0, 0, 0, 0, 0),
)

_AHEAD: Final = 4
# The first run of each arm is shortened so many steps later than the others: these two are compared first.


class Parts:
    """Collects the parts of a page that is one file: each gets its share of what the ones before have left."""

    def __init__(self, parts: int, runs: int) -> None:
        self._waiting = parts
        self._left = MAX_PARTS
        self._ratio = _LIKELY_RATIO
        self._images_left = _MAX_IMAGES if runs <= _FEW_RUNS else 0
        self.lines: list[str] = []
        """A line for each part: its name, and Base64 of compressed JSON, or an image as data."""

    def add_case(self, name: str, iteration: Iteration, case: Case, earlier: str | None) -> None:
        """Add what is shown of a case."""
        images = self._kept_images(name, case)
        self._add(name, case_details(iteration, case, earlier, images))
        self.lines += [f"{image} {content}" for content, image in images.items()]

    def add_query(self, name: str, triggers: TriggerSet, query: QueryResult) -> None:
        """Add the transcripts of a query."""
        self._add(name, query_details(triggers, query))

    def _add(self, name: str, details: dict[str, Any]) -> None:
        share = self._left // max(1, self._waiting)
        self._waiting -= 1
        last = len(_STEPS) + _AHEAD
        for place in range(last + 1):
            raw = json_bytes(_bounded(details, place) if place else details)
            is_last = place == last
            if len(raw) > share * self._ratio * _MARGIN and not is_last:
                continue
            packed = base64.b64encode(zlib.compress(raw, 6)).decode("ascii")
            self._ratio = len(raw) / len(packed)
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


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """Return a part as it is sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _seen(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a value in whose texts what is hidden is shown."""
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
    iteration: Iteration, case: Case, earlier: str | None = None, images: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return all that was read of a case; `images` names those that lie elsewhere, by their content."""
    arms = [arm for arm in iteration.arms if case.of(arm)]
    texts = [each.text for each in check_scores(case, arms)]
    places = {text: place for place, text in enumerate(texts)}
    details = {
        "kind": "case",
        "name": case.name,
        "prompt": case.prompt,
        "expected": case.expected,
        "arms": [arm_name(arm) for arm in arms],
        "baseline": arms.index(iteration.baseline) if iteration.baseline in arms else None,
        "assertions": texts,
        "runs": [{"arm": place, **_run(run, places, images)} for place, arm in enumerate(arms) for run in case.of(arm)],
        "comparison": _comparison(case),
        "earlier": earlier or "",
        "replaced": (case.replaced_feedback or "").strip(),
        "feedback": case.feedback,
    }
    known = {"key": case.key, "version": case.feedback_version, "outputs": case.outputs_digest}
    return {**_seen(details), **known}


def _run(run: Run, places: Mapping[str, int], images: Mapping[str, str] | None) -> dict[str, Any]:
    return {
        "number": run.number,
        "path": run.path,
        "state": run.status.value,
        "failed": run.failed,
        "error": run.error,
        "said": "" if run.failed or run.status is Status.PENDING else run_numbers(run),
        "checks": [[places[check.text], check.passed, check.evidence] for check in run.checks],
        "files": [_file(file, run, images) for file in run.outputs],
        "notes": [*filter(None, [run.outputs_note]), *run.notes],
        "transcript": _transcript(run.transcript, f"{run.path}/transcript.jsonl"),
    }


def _file(file: ShownFile, run: Run, images: Mapping[str, str] | None) -> dict[str, Any]:
    content, note = file.content, file.note
    if file.kind is FileKind.IMAGE and images is not None and content:
        content = images.get(content, "")
        note = note if content else f"The image is not in this page: it lies in {run.path}."
    return {
        "name": file.name,
        "kind": file.kind.value,
        "size": size_text(file.size),
        "content": content,
        "note": note,
        "digest": file.digest,
    }


def _transcript(transcript: ShownTranscript, path: str) -> dict[str, Any] | None:
    if not transcript:
        return None
    found = {"head": transcript.head, "tail": transcript.tail, "left_out": transcript.left_out}
    return {**found, "note": transcript.note, "path": path}


def _comparison(case: Case) -> dict[str, Any] | None:
    if case.comparison is None:
        return None
    return {
        "winner": case.comparison.winner,
        "reasoning": case.comparison.reasoning,
        "rubric": case.comparison.rubric,
        "details": case.comparison.details,
    }


def query_details(triggers: TriggerSet, query: QueryResult) -> dict[str, Any]:
    """Return the transcripts of the runs of a query."""
    runs = zip(query.outcomes, query.transcripts, strict=False)
    found = [(place, outcome, triggers.transcripts.get(path)) for place, (outcome, path) in enumerate(runs, 1)]
    folder = f"{triggers.label}/transcripts"
    shown = [
        {"title": f"Run {place}: {outcome}", "transcript": _transcript(transcript, folder)}
        for place, outcome, transcript in found
        if transcript
    ]
    return {"kind": "query", "runs": _seen(shown)}


def _bounded(details: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return the details with the beginnings of their texts: the shorter, the higher the place of the step, from 1."""
    bounds, further = _STEPS[max(0, place - _AHEAD - 1)], _STEPS[min(place, len(_STEPS)) - 1]
    found = {name: _cut(value, bounds.texts) if isinstance(value, str) else value for name, value in details.items()}
    kept = {name: details[name] for name in ("key", "kind") if name in details}
    runs: list[Mapping[str, Any]] = details["runs"]
    first = {run.get("arm"): run for run in reversed(runs)}
    bounded = [_bounded_run(run, bounds if first[run.get("arm")] is run else further) for run in runs]
    found |= {**kept, "cut": True, "runs": bounded}
    if details.get("assertions"):
        found["assertions"] = [_cut(text, bounds.texts) for text in details["assertions"]]
    if details.get("comparison"):
        words = details["comparison"]
        found["comparison"] = {
            **words,
            "reasoning": _cut(words["reasoning"], bounds.texts),
            "rubric": words["rubric"] if bounds is _STEPS[0] else [],
        }
    return found


def _bounded_run(run: Mapping[str, Any], bounds: Bounds) -> dict[str, Any]:
    found = {**run, "transcript": _bounded_transcript(run["transcript"], bounds)}
    if "files" not in run:
        return found
    left_out = len(run["files"]) - bounds.files
    notes = [f"{counted(left_out, 'more file')} in {run['path']}."] if left_out > 0 else []
    return {
        **found,
        "error": _cut(run["error"], bounds.evidence + 100),
        "checks": [
            [place, passed, _cut(words, bounds.passed if passed else bounds.evidence)]
            for place, passed, words in run["checks"]
        ],
        "files": [_bounded_file(file, run["path"], bounds) for file in run["files"][: bounds.files]],
        "notes": [*notes, *(_cut(each, bounds.evidence + 100) for each in run["notes"][: bounds.files])],
    }


def _bounded_file(file: Mapping[str, Any], path: str, bounds: Bounds) -> Mapping[str, Any]:
    # An image is the name of a line of its own.
    if file["kind"] == FileKind.IMAGE or len(file["content"]) <= bounds.file:
        return file
    note = f"The first {bounds.file:,} of {len(file['content']):,} characters; it lies in {path}."
    return {**file, "content": file["content"][: bounds.file], "note": note}


def _bounded_transcript(transcript: Mapping[str, Any] | None, bounds: Bounds) -> dict[str, Any] | None:
    if transcript is None:
        return None
    head, tail = (tuple((label, words) for label, words in transcript[name]) for name in ("head", "tail"))
    whole = ShownTranscript(head, tail, transcript["left_out"])
    kept = shortened(whole, bounds.entries, bounds.entry)
    return {**transcript, "head": kept.head, "tail": kept.tail, "left_out": kept.left_out}


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
    if not limit:
        return ""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"
