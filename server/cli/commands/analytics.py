"""The command `analytics`: which skills are used, how often, by how many and from where, and which are not."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.commands.options import AsJson, Directories
from server.cli.console import EXIT_USAGE, fail, print_text
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from server.auditlog.analytics import SkillCounts

__all__ = ["analytics"]


def analytics(
    directories: Directories = None,
    *,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="The first day, as a date, or as a span before today such as 7d.")
    ] = "30d",
    until: Annotated[str | None, typer.Option(metavar="TIME", help="The last day.", show_default="today")] = None,
    as_json: AsJson = False,
) -> None:
    """Show how the skills of a server are used.

    The servers of this user count uses unless audit_log.analytics is off. The counts stay on this machine.
    """
    from server.auditlog.analytics import UsageFile
    from server.auditlog.reading import days_after
    from server.config.bootstrap import open_quietly
    from server.config.machine import state_home

    first = _day("--since", since)
    last = datetime.now(UTC).date() if until is None else _day("--until", until)
    counts = UsageFile(state_home()).read(first.isoformat(), days_after(last, 1).isoformat())
    served = [skill.key for skill in open_quietly(directories).catalog.active]
    report = _report(counts, served)
    if as_json:
        import json

        # In ASCII, because JSON would leave some control characters of the names as they are.
        print_text(json.dumps({"since": first.isoformat(), "until": last.isoformat(), **report}, indent=2))
    else:
        _print(report, first, last)


def _day(flag: str, text: str) -> date:
    from server.auditlog.reading import moment_of

    try:
        return date.fromisoformat(moment_of(text)[:10])
    except SkillsError as error:
        fail(f"{flag} {error}", EXIT_USAGE)


def _report(counts: dict[str, SkillCounts], served: list[str]) -> dict[str, Any]:
    from server.auditlog.analytics import USES, UsageEvent

    rows: list[dict[str, Any]] = [
        {
            "skill": name,
            **{str(event): each.events[event] for event in UsageEvent},
            "users": each.users,
            "clients": dict(sorted(each.clients.items(), key=lambda pair: (-pair[1], pair[0]))),
            "served": name in served,
        }
        for name, each in counts.items()
    ]
    rows.sort(key=lambda row: (-row["activated"], -row["ran"], -row["read"], -row["found"], row["skill"]))
    # A skill that failed was used, if in vain.
    used = {row["skill"] for row in rows if row["failed"] or any(row[event] for event in USES)}
    return {
        "skills": rows,
        "never_used": sorted(name for name in served if name not in used),
        "found_not_activated": [row["skill"] for row in rows if row["found"] and row["skill"] not in used],
    }


_COLUMNS = ("activated", "users", "ran", "read", "found", "failed", "denied")


def _print(report: dict[str, Any], first: date, last: date) -> None:
    from rich.markup import escape
    from rich.table import Table

    from server.cli.tables import console_for_people

    console = console_for_people()
    if report["skills"]:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("skill", overflow="fold")
        for heading in _COLUMNS:
            table.add_column(heading, justify="right")
        table.add_column("clients", overflow="fold")
        for row in report["skills"]:
            clients = ", ".join(f"{name} {count}" for name, count in row["clients"].items())
            table.add_row(
                escape(one_line(row["skill"])), *(str(row[name]) for name in _COLUMNS), escape(one_line(clients))
            )
        console.print(table)
    else:
        print_text(f"no use is counted from {first} to {last}")
    for title, names in (("never used", report["never_used"]), ("found, not used", report["found_not_activated"])):
        if names:
            print_text(one_line(f"{title}: {', '.join(names)}"))
