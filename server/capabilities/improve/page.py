"""The improvements on the page for operators: what is proposed, what was made, and the evidence that is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio.from_thread
import msgspec
from msgspec import Struct

from server.capabilities.improve.records import improvement_records
from server.capabilities.runs.page import run_address
from server.capability import PageAction, PageParts, PageTab
from server.html.differences import diff_lines
from server.html.paging import page_number, paged
from server.html.words import percent
from skills_core.improve.improvement import ImprovementStatus

if TYPE_CHECKING:
    from server.capability import Visit
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.skills.skill import Skill

PATH: Final = "/page/improvements"
PAGE_SIZE: Final = 20
"""Improvements on one page."""

MAX_LINES: Final = 1000
"""Lines of a diff that are shown."""

_KINDS: Final = {
    ImprovementStatus.PROPOSED.value: "mixed",
    ImprovementStatus.IMPROVED.value: "good",
    ImprovementStatus.ACCEPTED.value: "good",
    ImprovementStatus.DROPPED.value: "bad",
}
_PASSED: Final = frozenset({ImprovementStatus.PROPOSED, ImprovementStatus.IMPROVED, ImprovementStatus.ACCEPTED})
# A change with one of these has passed its measurement.


class _Measured(Struct, frozen=True):
    by: str
    before: float | None = None
    after: float | None = None
    verdict: str | None = None


class _Correction(Struct, frozen=True):
    kind: str
    path: str
    line: int
    old: str
    new: str


class _Recorded(Struct, frozen=True):
    """What the page shows of a record."""

    id: str
    at: str
    run_id: str
    skill: str
    source: str
    place: str
    status: str
    summary: str | None = None
    reason: str | None = None
    message: str | None = None
    diff: str | None = None
    commit: str | None = None
    trace_id: str | None = None
    corrections: tuple[_Correction, ...] = ()
    measured: _Measured | None = None


class ShownImprovement(NamedTuple):
    """An improvement as the page shows it: `evidence` is what is recorded, and no more than that."""

    record: _Recorded
    kind: str
    skill: Skill | None
    is_open: bool
    evidence: Sequence[str]
    lines: Sequence[tuple[str, str]]
    left_out: int
    run: str
    trace: str


def page_parts(host: Host) -> PageParts:
    """Return the tab of improvements, and the actions that accept and reject a proposal."""
    return PageParts(
        tabs=(PageTab("improvements", "Improvements", "improve/improvements.html", partial(_show, host.settings)),),
        actions=(
            PageAction("accept_improvement", partial(_accept, host)),
            PageAction("reject_improvement", _reject),
        ),
    )


def _accept(host: Host, form: Mapping[str, str], visit: Visit) -> str:
    from server.capabilities.improve.installation import accept

    del visit
    # The whole catalog, as the command has it.
    record = accept(improvement_records(), form.get("id", ""), host.everything, host.settings)
    anyio.from_thread.run(host.try_reload)
    return f"The change of {record['skill']} is made. `skillserve rollback {record['skill']}` takes it back."


def _reject(form: Mapping[str, str], visit: Visit) -> str:
    from server.capabilities.improve.installation import reject

    del visit
    record = reject(improvement_records(), form.get("id", ""))
    return f"The proposed change of {record['skill']} is rejected. The skill is as it was."


def _show(settings: Settings, visit: Visit) -> Mapping[str, Any]:
    from server.capabilities.improve.installation import ClosedProposalError
    from server.capabilities.runs.run_reading import without_secrets_of

    faults: list[str] = []
    found = improvement_records().all(faults.append)
    # Open proposals wait for a person; the sort keeps the newest first.
    found.sort(key=lambda each: each["status"] != ImprovementStatus.PROPOSED)
    page = paged(found, PAGE_SIZE, page_number(visit.query), PATH)
    shown: list[ShownImprovement] = []
    for each in page.entries:
        try:
            shown.append(_shown(without_secrets_of(settings, _texts(each)), visit))
        except (msgspec.ValidationError, ClosedProposalError, UnicodeDecodeError) as error:
            number = str(each["id"])[:40]
            faults.append(f"The improvement {number} is not shown, because its record is damaged: {error}.")
    proposed = sum(each["status"] == ImprovementStatus.PROPOSED for each in found)
    return {"page": page, "improvements": shown, "proposed": proposed, "faults": faults}


def _texts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the texts of a record; the diff of an open proposal is that of the bytes that accepting it installs."""
    from server.capabilities.improve.installation import diff_of_change, recorded_change

    texts = {name: value for name, value in record.items() if name != "change"}
    if record["status"] == ImprovementStatus.PROPOSED:
        texts["diff"] = diff_of_change(*recorded_change(record))
    return texts


def _shown(texts: Mapping[str, Any], visit: Visit) -> ShownImprovement:
    from server.capabilities.improve.installation import skill_of

    record = msgspec.convert(texts, _Recorded)
    lines = diff_lines(record.diff or "")
    return ShownImprovement(
        record=record,
        kind=_KINDS.get(record.status, "none"),
        skill=skill_of(texts, visit.view.catalog),
        is_open=record.status == ImprovementStatus.PROPOSED,
        evidence=[*_evidence(record)],
        lines=lines[:MAX_LINES],
        left_out=max(0, len(lines) - MAX_LINES),
        run=run_address(record.run_id),
        trace=run_address(record.trace_id) if record.trace_id else "",
    )


def _evidence(record: _Recorded) -> Iterator[str]:
    """Yield what is recorded of the measurement of a change, and how far it reaches."""
    measured, passed = record.measured, record.status in _PASSED
    if measured is None:
        yield "Nothing is recorded of a measurement."
    elif measured.by == "evals":
        before, after = percent(measured.before), percent(measured.after)
        verdict = f" ({measured.verdict})" if measured.verdict else ""
        yield f"The skill's own evals: pass rate {before} before the change, {after} with it{verdict}."
    elif measured.by == "replay" and passed:
        yield (
            "The failed step was asked for once more with the new text, and the model did not repeat the failure. No "
            "evals ran, so nothing is known of other tasks."
        )
    elif measured.by == "replay":
        yield "The failed step was asked for once more with the new text. No evals ran."
    else:
        yield f"Measured by {measured.by}."
    for each in record.corrections:
        kind = each.kind.replace("_", " ")
        yield f"Correction of a {kind}, {each.path} line {each.line}: {each.old} becomes {each.new}."
