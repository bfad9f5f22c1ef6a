"""Logs for tests, as processes write them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

from server.capabilities.auditlog.audit_log import noted_request, record_of
from server.capabilities.auditlog.log_folder import LogFile
from server.capabilities.auditlog.reading import LogReader, RecordFilter
from server.capabilities.auditlog.records import AuditEvent, AuditRecord, ChainedRecord, timestamp
from server.capabilities.auditlog.verification import LogFaultKind, verify_log
from server.requests import RequestRecord

TODAY = datetime.now(UTC).date()


def activation(skill: str, principal: str = "anna", when: str | None = None) -> AuditRecord:
    return AuditRecord(
        when=when or timestamp(),
        event=AuditEvent.ACTIVATION,
        principal=principal,
        client="test 1.0",
        method="tools/call",
        tool="activate_skill",
        skill=skill,
        digest=f"sha256:{'0' * 64}",
        decision="allowed",
    )


def audit_record(request: RequestRecord) -> AuditRecord | None:
    """Return what is recorded of a request, None if nothing is."""
    noted = noted_request(request)
    return None if noted is None else record_of(noted)


def write_file(folder: Path, *skills: str, day: date = TODAY, ended: bool = True) -> Path:
    """Write a file with one activation for each skill; return its path."""
    file = LogFile(folder, day)
    assert file.append([activation(skill) for skill in skills]) == len(skills)
    file.close(ended=ended)
    return folder / str(file.name)


def entries(folder: Path, wanted: RecordFilter | None = None) -> list[ChainedRecord]:
    return [*LogReader(folder).records(wanted or RecordFilter())]


def skills_in(folder: Path) -> list[str | None]:
    return [entry.skill for entry in entries(folder) if entry.event is AuditEvent.ACTIVATION]


def damage(folder: Path) -> set[LogFaultKind]:
    return {finding.kind for finding in verify_log(folder).findings if finding.kind.is_damage}


def kinds(folder: Path) -> set[LogFaultKind]:
    return {finding.kind for finding in verify_log(folder).findings}
