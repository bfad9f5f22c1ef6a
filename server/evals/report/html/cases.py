"""The section of cases: grades by assertion, outputs side by side, transcripts, comparison and feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.evals.report.html.markup import Child, Html, foreign, join, tag
from server.evals.report.html.parts import arm_name, badge, facts, listed, section, table, text_block
from server.evals.report.html.transcript import transcript_block
from server.evals.report.model import FileKind, Status
from server.evals.report.numbers import amount, money, percent, size_text
from server.evals.report.scores import check_scores
from skills_core.diagnostics import agreeing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from server.evals.report.model import Case, CheckScore, Iteration, OutputFile, Run

__all__ = ["cases_section"]

_LONG_TEXT = 600
# Characters up to which an output of the first run is shown open.


def cases_section(iteration: Iteration, earlier: Iteration | None, *, editable: bool) -> Html:
    """Return all cases of an iteration; `earlier` is the iteration before, whose feedback is shown beside."""
    said = {case.key: case.feedback for case in earlier.cases if case.feedback} if earlier else {}
    articles = [_case(case, iteration, place, said, editable=editable) for place, case in enumerate(iteration.cases, 1)]
    hint = None
    if not editable and iteration.cases:
        command = tag("code", "skillserve report WORKSPACE --open")
        hint = tag("p", "To write feedback, open this report with ", command, ".", class_="note no-print")
    return section("cases", f"Cases of {iteration.label}", hint, *articles)


def _case(case: Case, iteration: Iteration, place: int, said: Mapping[str, str], *, editable: bool) -> Html:
    name = f"case-{place}"
    return tag(
        "article",
        tag("h3", foreign("span", case.name), id=name),
        _texts(case),
        _grades(case, iteration),
        _outputs(case, iteration),
        _transcripts(case, iteration.arms),
        _comparison(case),
        _feedback(case, name, said.get(case.key), editable=editable),
        aria_labelledby=name,
        class_="case",
    )


def _texts(case: Case) -> Html:
    pairs = [("Prompt", case.prompt), ("Expected", case.expected)]
    return join(*(_labelled(label, text) for label, text in pairs if text))


def _labelled(label: str, text: str) -> Html:
    return join(tag("h4", label), foreign("blockquote", text))


def _grades(case: Case, iteration: Iteration) -> Html | None:
    arms = [arm for arm in iteration.arms if case.of(arm)]
    scores = check_scores(case, arms)
    if not scores:
        return tag("p", "No assertions are graded." if case.runs else "Not started.", class_="note")
    rows = [[foreign("span", score.text), *_marks(case, score)] for score in scores]
    runs = [["All assertions", *(_runs_summary(case.of(arm)) for arm in arms)]]
    return table(f"Assertions of {case.name}", ["Assertion", *map(arm_name, arms)], [*rows, *runs])


def _marks(case: Case, score: CheckScore) -> Iterable[Html]:
    for arm, passed, total in score.arms:
        word = _grade_badge(passed, total)
        evidence = [
            _evidence(run, check.evidence, passed=check.passed)
            for run in case.of(arm)
            for check in run.checks
            if check.text == score.text and check.evidence
        ]
        details = tag("details", tag("summary", "Evidence"), *evidence) if evidence else None
        yield join(word, details)


def _grade_badge(passed: int, total: int) -> Html:
    if not total:
        return badge("none", "not graded")
    counts = f" {passed} of {total}" if total > 1 else ""
    if passed == total:
        return badge("good", f"✓ pass{counts}")
    return badge("bad", f"✗ fail{counts}") if not passed else badge("mixed", f"± flaky{counts}")


def _evidence(run: Run, words: str, *, passed: bool) -> Html:
    return tag(
        "p",
        tag("strong", f"Run {run.number}, {'pass' if passed else 'fail'}: "),
        foreign("span", words),
        class_="evidence",
    )


def _runs_summary(runs: Iterable[Run]) -> Html:
    return join(*(tag("div", *_run_line(run)) for run in runs))


def _run_line(run: Run) -> Iterable[Child]:
    yield f"Run {run.number}: "
    if run.failed:
        yield badge("bad", run.status.value)
        yield foreign("span", f" {run.error}")
    elif run.status is Status.PENDING:
        yield badge("none", "not finished")
    else:
        numbers = [percent(run.rate)]
        numbers += [f"{amount(run.seconds)} s"] * (run.seconds is not None)
        numbers += [_number_of(run.tokens, "token"), _number_of(run.tool_calls, "tool call")]
        numbers += [money(run.cost)] * (run.cost is not None)
        yield ", ".join(filter(None, numbers))


def _number_of(value: float | None, noun: str) -> str:
    """Return a number that may be a mean with its noun; empty if it is not known."""
    return "" if value is None else f"{amount(value)} {agreeing(1 if value == 1 else 2, noun, f'{noun}s')}"


def _outputs(case: Case, iteration: Iteration) -> Html | None:
    columns = [_column(case, arm) for arm in iteration.arms if any(_has_outputs(run) for run in case.of(arm))]
    return join(tag("h4", "Outputs"), tag("div", *columns, class_="side-by-side")) if columns else None


def _has_outputs(run: Run) -> bool:
    return bool(run.outputs or run.notes or run.outputs_note)


def _column(case: Case, arm: str) -> Html:
    runs = case.of(arm)
    shown = []
    for run in runs:
        heading = tag("h6", f"Run {run.number}") if len(runs) > 1 else None
        owner = f"{case.name}, {arm_name(arm)}, run {run.number}"
        files = [_file(file, owner, is_open=run is runs[0]) for file in run.outputs]
        notes = listed([foreign("span", note) for note in run.notes]) if run.notes else None
        note = tag("p", run.outputs_note, class_="note") if run.outputs_note else None
        shown += [heading, *(files or [tag("p", "No files.", class_="note")]), note, notes]
    return tag("div", tag("h5", foreign("span", arm_name(arm))), *shown, class_="column")


def _file(file: OutputFile, owner: str, *, is_open: bool) -> Html:
    name = tag("span", foreign("code", file.name), tag("span", f" {size_text(file.size)}", class_="note"))
    label = f"{file.name} of {owner}"
    if file.kind is FileKind.IMAGE and file.content:
        image = tag("img", src=file.content, alt=f"Image {label}", loading="lazy", decoding="async")
        return tag("figure", tag("figcaption", name), image, class_="output")
    if file.kind is FileKind.TEXT and not (file.note and not file.content):
        shown = is_open and len(file.content) <= _LONG_TEXT
        return tag("details", tag("summary", name), text_block(label, file.content, file.note), open=shown)
    note = foreign("p", file.note, class_="note") if file.note else None
    return tag("div", name, foreign("p", file.digest, class_="digest") if file.digest else None, note, class_="output")


def _transcripts(case: Case, arms: Iterable[str]) -> Html | None:
    shown = [_transcript(case, run) for arm in arms for run in case.of(arm) if run.transcript]
    return join(tag("h4", "Transcripts"), *shown) if shown else None


def _transcript(case: Case, run: Run) -> Html:
    title = f"{arm_name(run.arm)}, run {run.number}"
    return transcript_block(
        title, f"Transcript of {case.name}, {title}", run.transcript, f"{run.path}/transcript.jsonl"
    )


def _comparison(case: Case) -> Html | None:
    found = case.comparison
    if found is None:
        return None
    winner = tag("p", "Winner: ", foreign("strong", found.winner or "not said"))
    reasons = foreign("blockquote", found.reasoning) if found.reasoning else None
    details = facts((name, foreign("span", value)) for name, value in found.details)
    rows = [[foreign("span", text) for text in row] for row in found.rubric]
    scores = table(f"Scores of {case.name}", ["Criterion", "A", "B"], rows) if rows else None
    return join(tag("h4", "Blind comparison"), winner, reasons, scores, details)


def _feedback(case: Case, name: str, earlier: str | None, *, editable: bool) -> Html | None:
    replaced = (case.replaced_feedback or "").strip()
    others = [("Feedback on the iteration before", earlier), ("Feedback on outputs that were replaced", replaced)]
    before = join(*(join(tag("h4", title), foreign("blockquote", words)) for title, words in others if words))
    if not editable:
        if case.feedback is None:
            return before
        words = foreign("blockquote", case.feedback) if case.feedback.strip() else tag("p", "Reviewed; it is fine.")
        return join(before, tag("h4", "Feedback"), words)
    field = f"{name}-feedback"
    # HTML drops the first line break of a text field.
    area = foreign(
        "textarea", f"\n{case.feedback or ''}", id=field, rows=3, maxlength=20_000, aria_describedby=f"{field}-hint"
    )
    form = tag(
        "form",
        tag("label", "Feedback on ", foreign("span", case.name), for_=field),
        tag("p", "What is wrong, and what you expected. Leave it empty if the case is fine.", id=f"{field}-hint"),
        area,
        tag("button", "Save feedback", type="submit"),
        " ",
        tag("button", "Replace the other text", type="button", class_="replace", hidden=True),
        tag("p", "Reviewed." if case.feedback is not None else "", role="status", class_="saved"),
        class_="feedback no-print",
        data_case=case.key,
        data_version=case.feedback_version,
        data_outputs=case.outputs_digest,
        autocomplete="off",
    )
    return join(before, form)
