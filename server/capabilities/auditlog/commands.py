"""The commands `audit-log` and `analytics`: read and verify what the audit log has, and count uses of skills."""

from __future__ import annotations

import getpass
import itertools
import json
import os
import sys
from collections import deque
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.capabilities.auditlog.reading import ExportFormat
from server.capabilities.auditlog.records import AuditEvent
from server.capabilities.auditlog.settings import AuditLogSettings, audit_log_folder
from server.cli.commands.options import AsJson, Directories
from server.cli.console import (
    EXIT_EMPTY,
    EXIT_NO,
    EXIT_USAGE,
    fail,
    print_json,
    print_notice,
    print_text,
)
from server.cli.help_pages import CommandLine, group_with_default
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError, system_message

if TYPE_CHECKING:
    from server.capabilities.auditlog.log_folder import FileEnd
    from server.capabilities.auditlog.reading import LogReader, RecordFilter
    from server.capabilities.auditlog.records import ChainedRecord
    from server.requests import CommandRecord

_LIST = "list"
_NO_RECORD = "there is no such record in {}; a server writes them, unless audit_log.enabled is off"

audit_log = CommandLine(
    cls=group_with_default(_LIST),
    help="Show who used which skill; without a command, as `list` does.",
    subcommand_metavar="[COMMAND] [ARGS]...",
)

Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only records from this date or time on, or of a span before now, as in 7d."),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only records before this date, time or span.")]
OfPrincipal = Annotated[str | None, typer.Option("--principal", metavar="NAME", help="Only records of this user.")]
OfSkill = Annotated[str | None, typer.Option("--skill", metavar="NAME", help="Only records about this skill.")]
WithDecision = Annotated[
    str | None, typer.Option("--decision", metavar="DECISION", help="Only records with this decision, such as denied.")
]
OfEvent = Annotated[
    AuditEvent | None,
    typer.Option("--event", metavar="EVENT", help="Only records of this event, such as activation or login_refused."),
]
Folder = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The folder of the records.", show_default="as in the settings"),
]


@audit_log.command(_LIST)
def list_records(  # noqa: PLR0913 - one parameter for each flag
    *,
    since: Since = None,
    until: Until = None,
    principal: OfPrincipal = None,
    skill: OfSkill = None,
    decision: WithDecision = None,
    event: OfEvent = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show the newest N records.")] = 100,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """List records, oldest first."""
    from server.capabilities.auditlog.reading import object_of

    reader = _reader(folder)
    wanted = _filter(since, until, principal, skill, decision, event)
    # One more than is shown tells whether there are more.
    found = deque(reader.records(wanted), limit + 1)
    shown = [*found][-limit:]
    if as_json:
        # In ASCII, because JSON would leave some control characters of the names as they are.
        print_text(
            json.dumps({"records": [object_of(entry) for entry in shown], "unreadable": reader.unreadable}, indent=2)
        )
    else:
        for entry in shown:
            print_text(_line(entry))
        if not found and not reader.unreadable:
            print_notice(_NO_RECORD.format(_folder(folder)))
        if len(found) > limit:
            print_notice(f"these are the newest {limit} records; --limit shows more")
    _tell_unreadable(reader)


@audit_log.command()
def export(
    *,
    kind: Annotated[ExportFormat, typer.Option("--format", help="The format of the records.")] = ExportFormat.JSONL,
    since: Since = None,
    until: Until = None,
    principal: OfPrincipal = None,
    skill: OfSkill = None,
    decision: WithDecision = None,
    event: OfEvent = None,
    folder: Folder = None,
) -> None:
    """Print all records as JSON lines or CSV, oldest first.

    In CSV, text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    from server.capabilities.auditlog.reading import exported

    reader = _reader(folder)
    wanted = _filter(since, until, principal, skill, decision, event)
    lines: Iterator[str] = exported(reader.records(wanted), kind)
    found = False
    while batch := [*itertools.islice(lines, 1000)]:
        found = True
        print_text("\n".join(batch))
    if not found and not reader.unreadable:
        print_notice(_NO_RECORD.format(_folder(folder)))
    _tell_unreadable(reader)


@audit_log.command()
def verify(
    *,
    anchors: Annotated[
        list[str] | None,
        typer.Option(
            "--anchor",
            metavar="ANCHOR",
            help="An anchor, or a file with anchors, such as the log of the server, or - for stdin; repeatable.",
        ),
    ] = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Check the log for changed and removed records.

    The verdict claims what the files and the anchors show.

    Without an anchor, nothing shows whether the newest records, or whole files, were removed. The server writes anchors
    to its log, and each line that this command prints for a file begins with one. The exit code is 1 if the log is
    damaged, and 3 if there is no record at all.
    """
    from server.capabilities.auditlog.verification import (
        LogVerdict,
        verification_lines,
        verification_object,
        verify_log,
    )

    where = _folder(folder, may_be_missing=True)
    found = verify_log(where, _anchors(anchors or []))
    if as_json:
        print_json(verification_object(found))
    else:
        for line in verification_lines(found, where):
            print_text(line)
    if found.verdict is LogVerdict.CONSISTENT:
        print_notice("no anchor shows whether the newest records or whole files were removed; see --anchor")
    if found.verdict in {LogVerdict.DAMAGED, LogVerdict.EMPTY}:
        raise typer.Exit(EXIT_NO if found.verdict is LogVerdict.DAMAGED else EXIT_EMPTY)


def _anchors(given: list[str]) -> set[FileEnd]:
    from server.capabilities.auditlog.log_folder import anchors_of
    from server.capabilities.auditlog.verification import anchors_in

    found: set[FileEnd] = set()
    for text in given:
        named = {*anchors_of(text)}
        if not named:
            try:
                named = anchors_in(sys.stdin.fileno() if text == "-" else text)
            except OSError as error:
                why = f"this is not an anchor, and as a file it cannot be read: {system_message(error)}"
                fail(f"--anchor {text!r:.300}: {why}", EXIT_USAGE)
        if not named:
            fail(f"--anchor {text!r:.300}: there is no anchor in this file", EXIT_USAGE)
        found |= named
    return found


def _folder(given: Path | None, *, may_be_missing: bool = False) -> Path:
    if given is not None:
        if not given.is_dir() and not (may_be_missing and not os.path.lexists(given)):
            fail(f"--folder {str(given)!r}: there is no such folder", EXIT_USAGE)
        return given
    from server.config.bootstrap import user_settings
    from server.config.machine import Machine, current_places

    return audit_log_folder(user_settings(Machine(current_places()), {}).section(AuditLogSettings))


def _reader(given: Path | None) -> LogReader:
    from server.capabilities.auditlog.reading import LogReader

    return LogReader(_folder(given))


def _filter(
    since: str | None,
    until: str | None,
    principal: str | None,
    skill: str | None,
    decision: str | None,
    event: AuditEvent | None,
) -> RecordFilter:
    from server.capabilities.auditlog.reading import RecordFilter, moment_of

    moments: list[str | None] = []
    for flag, text in (("--since", since), ("--until", until)):
        try:
            moments.append(None if text is None else moment_of(text))
        except SkillsError as error:
            fail(f"{flag} {error}", EXIT_USAGE)
    return RecordFilter(moments[0], moments[1], principal, skill, decision, event)


def _line(entry: ChainedRecord) -> str:
    """Return a record as one line; names come from clients, so control characters are escaped."""
    from server.capabilities.auditlog.reading import object_of

    fields: dict[str, Any] = object_of(entry)
    when, event = fields.pop("when"), fields.pop("event")
    who, decision = fields.pop("principal", "-"), fields.pop("decision", "")
    rest = [f"{name}={_value(fields[name])}" for name in fields if name not in {"kind", "roles", "era", "request_id"}]
    return one_line("  ".join(filter(None, [when, event, _value(who), decision, *rest])))


def _value(value: object) -> str:
    """Return the text of a value, quoted if it could be taken for another field."""
    text = str(value)
    return repr(text) if not text or " " in text or "=" in text else text


def _tell_unreadable(reader: LogReader) -> None:
    if reader.unreadable:
        print_notice(f"{reader.unreadable} lines are not records; run `skillserve audit-log verify`")


def record_command(done: CommandRecord) -> None:
    """Record what a command changed, if the audit log is on; a failure is reported and does not change the exit code.

    Revoking a token must be possible while the settings are wrong or the disk is full.
    """
    from server.capabilities.auditlog.recording import record_now
    from server.capabilities.auditlog.records import AuditRecord, bounded, timestamp
    from server.config.bootstrap import user_settings
    from server.config.files import ConfigurationError
    from server.config.machine import Machine, current_places

    record = AuditRecord(
        when=timestamp(),
        event=AuditEvent(done.event),
        principal=bounded(_user()),
        kind="command",
        target=bounded(done.target),
        decision="allowed",
    )
    try:
        record_now(user_settings(Machine(current_places()), {}), record)
    except (ConfigurationError, SkillsError) as error:
        print_notice(f"this is not recorded in the audit log: {error}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container's user often has no name.
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


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
    from server.capabilities.auditlog.analytics import UsageFile, usage_report
    from server.capabilities.auditlog.reading import days_after
    from server.config.bootstrap import open_with_settings
    from server.config.machine import state_home

    first = _day("--since", since)
    last = datetime.now(UTC).date() if until is None else _day("--until", until)
    counts = UsageFile(state_home()).read(first.isoformat(), days_after(last, 1).isoformat())
    served = [skill.key for skill in open_with_settings(directories)[0].catalog.active]
    report = usage_report(counts, served)
    if as_json:
        # In ASCII, because JSON would leave some control characters of the names as they are.
        print_text(json.dumps({"since": first.isoformat(), "until": last.isoformat(), **report}, indent=2))
    else:
        _print(report, first, last)


def _day(flag: str, text: str) -> date:
    from server.capabilities.auditlog.reading import moment_of

    try:
        return date.fromisoformat(moment_of(text)[:10])
    except SkillsError as error:
        fail(f"{flag} {error}", EXIT_USAGE)


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
