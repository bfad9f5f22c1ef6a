"""The schedules on the page for operators: what runs without its user, when, with which rights, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from server.capabilities.runs.page import run_address, run_kind
from server.capabilities.schedules.settings import ScheduleSettings, can_schedule
from server.capability import PageAction, PageParts, PageTab
from server.html.paging import page_number, paged

if TYPE_CHECKING:
    from server.capabilities.schedules.store import ScheduleStore
    from server.capability import Visit
    from server.config.settings.model import Settings
    from server.hosting.host import Host

PATH: Final = "/page/schedules"
PAGE_SIZE: Final = 20
"""Schedules on one page."""

_LATEST: Final = 5
# Runs of each schedule; the page of runs has the others.

_KINDS: Final = {
    "active": "good",
    "running": "good",
    "paused": "mixed",
    "pausing": "mixed",
    "unbound": "mixed",
    "damaged": "bad",
}


class ShownScheduledRun(NamedTuple):
    """A run of a schedule; `words` say what went wrong, and what became of the result."""

    address: str
    fired_at: str
    state: str
    kind: str
    words: Sequence[str]


class ShownSchedule(NamedTuple):
    """A schedule as the page shows it. `output` is that of its latest run that has ended; `unread` says if it is gone.

    One that cannot be read has its warnings alone.
    """

    name: str
    description: str
    state: str
    kind: str
    when: str
    next: Sequence[str]
    facts: Sequence[tuple[str, str]]
    warnings: Sequence[str]
    runs: Sequence[ShownScheduledRun] = ()
    earlier: int = 0
    output: str = ""
    unread: str = ""
    can_pause: bool = False
    can_resume: bool = False


def page_parts(host: Host) -> PageParts:
    """Return the tab of schedules, and the actions that pause and resume one; nothing without the libraries."""
    if not can_schedule():
        return PageParts()
    return PageParts(
        tabs=(PageTab("schedules", "Schedules", "schedules/schedules.html", partial(_show, host.settings)),),
        actions=(PageAction("pause_schedule", _pause), PageAction("resume_schedule", _resume)),
    )


def _pause(form: Mapping[str, str], visit: Visit) -> str:
    from server.capabilities.schedules.actions import pause_schedule

    del visit
    changed = pause_schedule(form.get("name", ""))
    return f"The schedule {changed['name']} is {changed['state']}. It fires only by hand until it is resumed."


def _resume(form: Mapping[str, str], visit: Visit) -> str:
    from server.capabilities.schedules.actions import resume_schedule

    del visit
    changed = resume_schedule(form.get("name", ""))
    return f"The schedule {changed['name']} is {changed['state']}."


def _show(settings: Settings, visit: Visit) -> Mapping[str, Any]:
    from server.capabilities.schedules.actions import overview, spent_words
    from server.capabilities.schedules.allowances import ScheduleError
    from server.capabilities.schedules.store import ScheduleStore, utc_now

    store, now = ScheduleStore(), utc_now()
    try:
        found = overview(store, settings, now)
    except ScheduleError as error:
        return {"page": None, "schedules": [], "fault": str(error), "facts": [], "warnings": []}
    page = paged(found["schedules"], PAGE_SIZE, page_number(visit.query), PATH)
    # Those of single schedules are shown with these.
    own = {f"{each['name']}: {warning}" for each in found["schedules"] for warning in each["warnings"]}
    return {
        "page": page,
        "schedules": [_shown(store, settings, each, found["limits"]["each"], now, visit) for each in page.entries],
        "fault": "",
        "facts": [*_limits(found, spent_words(found["spent"], found["limits"]["together"]))],
        "warnings": [*_not_fired(settings), *(each for each in found["warnings"] if each not in own)],
    }


def _not_fired(settings: Settings) -> Iterator[str]:
    if not settings.section(ScheduleSettings).enabled:
        yield (
            "This server does not fire schedules (schedules.enabled): they fire only while another server or "
            "`skillserve schedule daemon` runs."
        )


def _limits(found: Mapping[str, Any], spent: str) -> Iterator[tuple[str, str]]:
    yield f"Today, {found['day']}", spent
    limits = found["limits"]
    each = ", ".join(f"{limit:,} {name}" for name, limit in limits["each"].items() if limit is not None)
    yield "Limit of each schedule and day", each or "none"
    failures = limits["failures_to_pause"]
    yield "Pauses", f"after {failures} failed runs in a row" if failures else "never by itself"
    yield "Shortest paid interval", f"{limits['paid_interval_seconds']} s"


def _shown(
    store: ScheduleStore,
    settings: Settings,
    watched: Mapping[str, Any],
    limits: Mapping[str, Any],
    now: datetime,
    visit: Visit,
) -> ShownSchedule:
    """Return a schedule of the overview with its runs; `limits` are those of each schedule and day."""
    from server.capabilities.runs.run_reading import without_secrets_of
    from server.capabilities.schedules.actions import rights_words, schedule_object, spent_words
    from server.capabilities.schedules.allowances import ScheduleError

    name, state = watched["name"], watched["state"]
    description, warnings = str(watched.get("description") or ""), [*watched["warnings"]]
    unread = ShownSchedule(name, description, state, _KINDS.get(state, "none"), "", (), (), warnings)
    if watched["rights"] is None:
        return unread
    try:
        binding = store.read(name)
    except ScheduleError as error:
        return unread._replace(warnings=[*warnings, str(error)])
    found = schedule_object(store, name, binding, now)
    facts = [
        ("Model", str(watched["model"])),
        ("May use", rights_words(watched["rights"])),
        ("Used today", spent_words(watched["spent"], limits)),
        *_choices(found),
    ]
    output, trouble = _latest_output([run for run in found["runs"] if run["status"] != "running"])
    return unread._replace(
        when=_when(binding, now),
        next=[_clock(each) for each in found["next"]],
        facts=facts,
        runs=[_run(run) for run in without_secrets_of(settings, found["runs"][-_LATEST:])][::-1],
        earlier=max(0, len(found["runs"]) - _LATEST),
        output=without_secrets_of(settings, output),
        unread=trouble,
        can_pause=visit.may_change and state in {"active", "running"},
        can_resume=visit.may_change and state in {"paused", "pausing"},
    )


def _when(binding: Any, now: datetime) -> str:  # noqa: ANN401 - a binding, whose module needs the libraries
    from skills_core.schedules.when import describe

    # The next firings have lines of their own.
    return describe(binding.time, now, binding.zone).partition("\n")[0]


def _choices(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found["skill"]:
        yield "Skill", str(found["skill"])
    yield "Made by", f"{found['creator']}, {_clock(found['created'])}"
    yield "Missed firings", str(found["missed"])
    yield "Firings during a run", str(found["overlap"])
    if found["waiting"]:
        yield "Waiting firings", str(found["waiting"])
    if found["skipped"]:
        yield "Skipped firings", f"{found['skipped']:,}. {found['note']}"
    if found["failures"]:
        yield "Failed in a row", str(found["failures"])


def _clock(moment: str) -> str:
    """Return a moment in ISO 8601 with the offset that it has, to the second."""
    return datetime.fromisoformat(moment).isoformat(" ", "seconds")


def _run(run: Mapping[str, Any]) -> ShownScheduledRun:
    delivery = run.get("delivery") or {}
    problem = ": ".join(filter(None, (str(run.get("problem") or "").replace("_", " "), str(run.get("message") or ""))))
    sent = ": ".join(filter(None, (delivery.get("status", ""), delivery.get("message", ""))))
    return ShownScheduledRun(
        address=run_address(run["id"]),
        fired_at=_clock(str(run["fired_at"])),
        state=str(run["status"]),
        kind=run_kind(str(run["status"])),
        words=[*filter(None, (problem, str(run.get("notice") or ""), sent and f"Delivery {sent}"))],
    )


def _latest_output(ended: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the output of the latest run that has ended, and why there is none, both empty without a run."""
    from server.capabilities.runs.offered import trace_store
    from skills_core.runs.trace import UnknownTraceError, UnreadableTraceError

    if not ended:
        return "", ""
    try:
        output = trace_store().read(ended[-1]["id"]).get("output")
    except UnreadableTraceError as error:
        return "", str(error)
    except UnknownTraceError:
        return "", "The trace of its latest run is not on this machine any more."
    return (output, "") if isinstance(output, str) and output else ("", "Its latest run has no output.")
