"""Which requests are recorded, and that nobody can fill the disk with refusals."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from server.access import Principal, PrincipalKind
from server.capabilities.auditlog.audit_log import AuditLog, AuditSink, NotedRequest, record_of
from server.capabilities.auditlog.records import AuditEvent, AuditRecord, timestamp
from server.requests import ADMIN_METHOD, LOGIN_METHOD, Client, RequestDecision, RequestReason, RequestRecord, Use
from tests.capabilities.auditlog.helpers import audit_record

ANNA = Principal("anna", PrincipalKind.TOKEN, frozenset({"reader"}), client_id="token:0123456789ab")


def request(**fields: Any) -> RequestRecord:
    given: dict[str, Any] = {"method": "tools/call", "request_id": "x-1", "principal": ANNA, **fields}
    return RequestRecord(**given)


class Written(list[AuditRecord]):
    """What a sink writes, as records."""

    def write(self, record: AuditRecord | NotedRequest) -> None:
        self.append(record_of(record) if isinstance(record, NotedRequest) else record)


RECORDED: list[tuple[dict[str, Any], AuditEvent | None]] = [
    ({"tool": "activate_skill", "skill": "a", "use": Use.ACTIVATED}, AuditEvent.ACTIVATION),
    ({"method": "prompts/get", "skill": "a", "use": Use.ACTIVATED}, AuditEvent.ACTIVATION),
    ({"method": "resources/read", "skill": "a", "use": Use.READ}, AuditEvent.READ),
    ({"tool": "run_skill", "skill": "a", "use": Use.RAN, "decision": RequestDecision.FAILED}, AuditEvent.RUN),
    ({"tool": "run_workflow"}, AuditEvent.RUN),
    ({"tool": "reload_skills"}, AuditEvent.ADMIN),
    ({"method": ADMIN_METHOD, "target": "/admin/reload"}, AuditEvent.ADMIN),
    ({"method": LOGIN_METHOD, "decision": RequestDecision.DENIED, "reason": "login_invalid"}, AuditEvent.LOGIN_REFUSED),
    ({"method": LOGIN_METHOD, "decision": RequestDecision.DENIED, "reason": "login_missing"}, None),
    ({"tool": "check_tool_call", "decision": RequestDecision.DENIED, "reason": "guard"}, AuditEvent.REQUEST),
    ({"method": "ping", "decision": RequestDecision.DENIED, "reason": "limit"}, AuditEvent.REQUEST),
    (
        {"decision": RequestDecision.INVALID, "reason": RequestReason.UNKNOWN_SKILL, "target": "hidden"},
        AuditEvent.REQUEST,
    ),
    (
        {"method": "skills/get", "decision": RequestDecision.INVALID, "target": "skill://hidden/SKILL.md"},
        AuditEvent.REQUEST,
    ),
    ({"tool": "skill_history", "decision": RequestDecision.INVALID, "target": "hidden"}, AuditEvent.REQUEST),
    ({"method": "resources/read", "target": "skillserve://status"}, AuditEvent.ADMIN),
    (
        {"method": "resources/read", "decision": RequestDecision.DENIED, "target": "skillserve://status"},
        AuditEvent.ADMIN,
    ),
    ({"method": "resources/subscribe", "target": "skillserve://status"}, None),
    ({"decision": RequestDecision.INVALID, "reason": "invalid_request"}, None),
    ({"method": "tools/list"}, None),
    ({"tool": "find_skills", "found": ("a",)}, None),
]


@pytest.mark.parametrize(("fields", "event"), RECORDED)
def test_what_uses_administers_or_is_denied_is_recorded(fields: dict[str, Any], event: AuditEvent | None) -> None:
    found = audit_record(request(**fields))
    assert (found.event if found else None) == event


def test_a_record_says_who_used_what_how_and_from_where() -> None:
    found = audit_record(
        request(
            client=Client("claude-code", "2.0"),
            era="modern",
            address="192.0.2.1",
            tool="activate_skill",
            skill="a",
            digest="sha256:1",
            target="a",
            use=Use.ACTIVATED,
        )
    )
    assert found is not None
    assert found == AuditRecord(
        when=found.when,
        event=AuditEvent.ACTIVATION,
        principal="anna",
        kind="token",
        roles=("reader",),
        client="claude-code 2.0",
        era="modern",
        address="192.0.2.1",
        method="tools/call",
        tool="activate_skill",
        skill="a",
        digest="sha256:1",
        decision="allowed",
        request_id="x-1",
    )


def test_a_refused_login_names_no_principal() -> None:
    found = audit_record(
        RequestRecord(method=LOGIN_METHOD, request_id="1", decision=RequestDecision.DENIED, reason="login_invalid")
    )
    assert found is not None
    assert (found.principal, found.kind, found.reason) == (None, None, "login_invalid")


def test_many_refusals_for_one_reason_become_one_record_with_their_number() -> None:
    now, found = [0.0], Written()
    sink = AuditSink(found.write, lambda: now[0])
    refused = request(method=LOGIN_METHOD, decision=RequestDecision.DENIED, reason="login_invalid", address="192.0.2.1")
    for _ in range(1000):
        sink(refused)
    sink(request(method=LOGIN_METHOD, decision=RequestDecision.DENIED, reason="login_malformed"))
    sink(request(skill="a", use=Use.ACTIVATED))
    assert len(found) == 102
    now[0] = 60.0
    sink(refused)
    assert [(each.count, each.address) for each in found[102:]] == [(900, None), (1, "192.0.2.1")]
    sink.flush()
    assert len(found) == 104
    assert sum(each.count for each in found if each.reason == "login_invalid") == 1001


def test_denials_of_different_users_are_counted_apart_and_uses_are_always_recorded() -> None:
    found = Written()
    sink = AuditSink(found.write, lambda: 0.0)
    for number in range(300):
        other = Principal("ben", PrincipalKind.JWT)
        sink(request(decision=RequestDecision.DENIED, reason="limit", principal=other if number % 3 else ANNA))
        sink(request(skill="a", use=Use.ACTIVATED))
    sink.flush()
    assert sum(each.event is AuditEvent.ACTIVATION for each in found) == 300
    for name, number in (("anna", 100), ("ben", 200)):
        of_one = [each for each in found if each.principal == name and each.event is AuditEvent.REQUEST]
        assert sum(each.count for each in of_one) == number
        assert len(of_one) <= 101


def test_refused_logins_are_limited_whatever_the_reason_of_the_refusal() -> None:
    found = Written()
    sink = AuditSink(found.write, lambda: 0.0)
    for _ in range(1000):
        sink(request(method=LOGIN_METHOD, decision=RequestDecision.FAILED, reason="login_unavailable"))
    sink.flush()
    assert len(found) == 101
    assert sum(each.count for each in found) == 1000


def test_a_number_of_refusals_has_the_time_of_the_last_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    now, found = ["first"], Written()
    monkeypatch.setattr("server.capabilities.auditlog.audit_log.timestamp_of", lambda _: now[0])
    sink = AuditSink(found.write, lambda: 0.0)
    for _ in range(150):
        sink(request(method=LOGIN_METHOD, decision=RequestDecision.DENIED, reason="login_invalid"))
    now[0] = "last"
    sink(request(method=LOGIN_METHOD, decision=RequestDecision.DENIED, reason="login_invalid"))
    now[0] = "much later"
    sink.flush()
    assert (found[-1].count, found[-1].when) == (51, "last")


def test_a_number_of_refusals_is_written_after_its_minute_without_another_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.capabilities.auditlog.audit_log._IDLE_SECONDS", 0.01)
    now, found, counted = [0.0], Written(), threading.Event()
    log = AuditLog(tmp_path / "log", 30)

    def write(record: AuditRecord | NotedRequest) -> None:
        found.write(record)
        if found[-1].count > 1:
            counted.set()

    sink = AuditSink(write, lambda: now[0])
    log.call_regularly(sink.end_window)
    for _ in range(150):
        sink(request(method=LOGIN_METHOD, decision=RequestDecision.DENIED, reason="login_invalid"))
    with log:
        now[0] = 60.0
        assert counted.wait(60)
    assert [each.count for each in found[100:]] == [50]


def test_a_record_of_a_request_has_its_time_in_the_form_of_all_records() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 250_000, UTC)
    found = record_of(NotedRequest(moment.timestamp(), AuditEvent.ACTIVATION, request(skill="a", use=Use.ACTIVATED)))
    assert found.when == timestamp(moment) == "2026-01-02T03:04:05.250Z"
