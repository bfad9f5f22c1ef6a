"""The use of skills on the page for operators: of one skill on its page, and of all in a tab.

Numbers come from the counts of analytics, names and reasons from the audit log. Either may be off, and what cannot be
read is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from server.capabilities.auditlog.analytics import USES, DayCount, UsageEvent, UsageFile, usage_report
from server.capabilities.auditlog.reading import LogReader, RecordFilter, days_after
from server.capabilities.auditlog.recording import wants_audit_log
from server.capabilities.auditlog.records import AuditLogError
from server.capabilities.auditlog.settings import AuditLogSettings, audit_log_folder
from server.capability import PageParts, PageTab, SkillPanel
from server.config.machine import state_home
from server.html.charts import MAX_PARTS, Counts
from server.requests import RequestDecision

if TYPE_CHECKING:
    from server.capabilities.auditlog.records import ChainedRecord
    from server.capability import Visit
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.skills.skill import Skill

PATH: Final = "/page/activity"
MAX_RECORDS: Final = 50
"""Records that the tab shows."""

_OF_A_SKILL: Final = 20
# Records on the page of a skill.

_MOST_SKILLS: Final = 20
_MOST_NAMES: Final = 50
_DAYS: Final = (7, 30, 90, 365)
_USUAL: Final = 30
_MAX_SKILL: Final = 300
_EVENT_WORDS: Final = {UsageEvent.ACTIVATED: "Activated", UsageEvent.READ: "Read", UsageEvent.RAN: "Ran"}


class UseChart(NamedTuple):
    """Uses by day: short and full labels of the days, and the numbers of each part; `since` is the first day."""

    labels: Sequence[str]
    days: Sequence[str]
    parts: Sequence[Counts]
    total: int
    since: str
    until: str
    is_shorter: bool


class RecordRow(NamedTuple):
    """A record with its skill, None if the visitor sees none of this name."""

    record: ChainedRecord
    skill: Skill | None


def page_parts(host: Host) -> PageParts:
    """Return the panel of a skill's use and the tab of all use, nothing if neither counts nor records are kept."""
    settings = host.settings
    if not settings.section(AuditLogSettings).analytics and not wants_audit_log(settings, serves_http=True):
        return PageParts()
    return PageParts(
        panels=(SkillPanel("use", "Use", "auditlog/use.html", partial(_use, settings), operators=True),),
        tabs=(PageTab("activity", "Activity", "auditlog/activity.html", partial(_activity, settings)),),
    )


def _use(settings: Settings, skill: Skill, visit: Visit) -> Mapping[str, Any] | None:
    active = visit.view.catalog.get(skill.key)
    if active is not None and active is not skill:
        # Uses of this name are those of another skill.
        return None
    faults: list[str] = []
    chart = _chart(settings, _USUAL, skill.key, _by_client, faults)
    reader, records = _records(settings, RecordFilter(skill=skill.key), _OF_A_SKILL, faults)
    return {
        "chart": chart,
        "counts_are_on": settings.section(AuditLogSettings).analytics,
        "reader": reader,
        "records": None if records is None else [RecordRow(each, skill) for each in records],
        "faults": faults,
        "address": f"{PATH}?{urlencode({'skill': skill.key}, errors='replace')}",
    }


def _activity(settings: Settings, visit: Visit) -> Mapping[str, Any]:
    query, faults = visit.query, list[str]()
    days = next((each for each in _DAYS if str(each) == query.get("days")), _USUAL)
    skill = query.get("skill", "")[:_MAX_SKILL].strip() or None
    decision = next((each for each in RequestDecision if each.value == query.get("decision")), None)
    since = _first(days).isoformat()
    reader, records = _records(settings, RecordFilter(since=since, skill=skill), None, faults)
    denied = None
    if records is not None:
        denied = _denials(each for each in records if each.decision == RequestDecision.DENIED)
        records = [each for each in records if decision is None or each.decision == decision]
    catalog = visit.view.catalog
    shown = None if records is None else records[:MAX_RECORDS]
    return {
        "choice": {"days": days, "skill": skill or "", "decision": decision.value if decision else ""},
        "periods": _DAYS,
        "decisions": [each.value for each in RequestDecision],
        "chart": _chart(settings, days, skill, _by_event, faults),
        "counts_are_on": settings.section(AuditLogSettings).analytics,
        "report": _report(settings, days, skill, [each.key for each in catalog.active], faults),
        "denied": denied,
        "reader": reader,
        "records": None if shown is None else [RecordRow(each, catalog.get(each.skill or "")) for each in shown],
        "found": 0 if records is None else len(records),
        "faults": faults,
        "skill_of": catalog.get,
    }


def _first(days: int) -> date:
    return datetime.now(UTC).date() - timedelta(days=days - 1)


def _records(
    settings: Settings, wanted: RecordFilter, most: int | None, faults: list[str]
) -> tuple[LogReader | None, list[ChainedRecord] | None]:
    """Return the newest records and the reader that has counted the others; None if the log is off or unreadable."""
    if not wants_audit_log(settings, serves_http=True):
        return None, None
    reader = LogReader(audit_log_folder(settings.section(AuditLogSettings)))
    try:
        return reader, [*islice(reader.newest(wanted), most)]
    except AuditLogError as error:
        faults.append(str(error))
        return reader, None


def _denials(records: Iterable[ChainedRecord]) -> list[tuple[str, str, int]]:
    """Return the reasons of refused requests with what was asked for, and their numbers, the most frequent first."""
    found: Counter[tuple[str, str]] = Counter()
    for each in records:
        found[each.reason or "not recorded", each.event.value] += each.count
    return [(reason, event, count) for (reason, event), count in found.most_common(_MOST_NAMES)]


def _chart(
    settings: Settings,
    days: int,
    skill: str | None,
    split: Callable[[Sequence[DayCount], Sequence[str]], list[Counts]],
    faults: list[str],
) -> UseChart | None:
    """Return the uses of the last days, None if they are not counted, cannot be read, or none is counted yet."""
    if not settings.section(AuditLogSettings).analytics:
        return None
    today, wanted, file = datetime.now(UTC).date(), _first(days), UsageFile(state_home())
    try:
        counted_since = file.first_day()
        if counted_since is None:
            return None
        # Of days before the first count, nobody knows.
        since = min(max(wanted, date.fromisoformat(counted_since)), today)
        rows = file.days(since.isoformat(), days_after(today, 1).isoformat(), skill)
    except AuditLogError as error:
        faults.append(str(error))
        return None
    uses = [row for row in rows if row.event in USES]
    shown = [(since + timedelta(days=number)).isoformat() for number in range((today - since).days + 1)]
    return UseChart(
        labels=[day[5:] for day in shown],
        days=shown,
        parts=split(uses, shown),
        total=sum(row.number for row in uses),
        since=since.isoformat(),
        until=today.isoformat(),
        is_shorter=since > wanted,
    )


def _by_event(rows: Sequence[DayCount], days: Sequence[str]) -> list[Counts]:
    return [_part(words, [row for row in rows if row.event is event], days) for event, words in _EVENT_WORDS.items()]


def _by_client(rows: Sequence[DayCount], days: Sequence[str]) -> list[Counts]:
    """Return the numbers of the clients that are used most; those of the others are one part."""
    totals: Counter[str] = Counter()
    for row in rows:
        totals[row.client] += row.number
    names = sorted(totals, key=lambda name: (-totals[name], name))
    alone = names if len(names) <= MAX_PARTS else names[: MAX_PARTS - 1]
    parts = [_part(name, [row for row in rows if row.client == name], days) for name in alone]
    if len(names) > len(alone):
        others = [row for row in rows if row.client not in alone]
        parts.append(_part(f"{len(names) - len(alone)} other clients", others, days))
    return parts


def _part(name: str, rows: Iterable[DayCount], days: Sequence[str]) -> Counts:
    numbers: Counter[str] = Counter()
    for row in rows:
        numbers[row.day] += row.number
    return Counts(name, tuple(numbers[day] for day in days))


def _report(
    settings: Settings, days: int, skill: str | None, served: Sequence[str], faults: list[str]
) -> Mapping[str, Any] | None:
    """Return the report of analytics with its longest lists cut, None if uses are not counted or cannot be read."""
    if not settings.section(AuditLogSettings).analytics:
        return None
    until = days_after(datetime.now(UTC).date(), 1)
    try:
        counts = UsageFile(state_home()).read(_first(days).isoformat(), until.isoformat())
    except AuditLogError as error:
        if str(error) not in faults:
            faults.append(str(error))
        return None
    report = usage_report(counts, frozenset(served))
    rows = [row for row in report["skills"] if skill in {None, row["skill"]}]
    lists = {
        name: (report[name][:_MOST_NAMES], max(0, len(report[name]) - _MOST_NAMES))
        for name in ("never_used", "found_not_activated")
        if skill is None
    }
    return {"rows": rows[:_MOST_SKILLS], "more": max(0, len(rows) - _MOST_SKILLS), "lists": lists}
