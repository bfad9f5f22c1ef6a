"""What administers the server or shows a skill is recorded as that, whatever method or tool does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from server.capabilities.auditlog.records import AuditEvent, AuditRecord
from server.requests import RequestDecision, RequestReason
from skills_core.history.store import open_history
from tests.capabilities.auditlog.helpers import audit_record
from tests.conftest import MakeSkill
from tests.server.serving import Served, modern, modern_headers, serving

STATUS = "skillserve://status"
HIDDEN = "skill://hidden/SKILL.md"


def recorded(served: Served) -> list[AuditRecord]:
    return [record for each in served.found if (record := audit_record(each)) is not None]


async def test_reading_the_status_is_recorded_as_the_tool_for_it_is(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, tools=("skills_status",)) as served:
        await served.call("skills_status")
        await served.ask("resources/read", {"uri": STATUS})
    assert [(each.event, each.decision) for each in recorded(served)] == [
        (AuditEvent.ADMIN, RequestDecision.ALLOWED)
    ] * 2


async def test_a_status_that_the_roles_of_the_caller_withhold_is_recorded_as_denied(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    roles: dict[str, Any] = {
        "access_roles": {"reader": ["*"], "operator": []},
        "access_tools": {"operator": ["skills_status"]},
    }
    async with serving(skills, tools=("skills_status",), **roles, access_default_roles=("reader",)) as served:
        await served.call("skills_status")
        answer = await served.ask("resources/read", {"uri": STATUS})
    assert "error" in answer.json()
    denied = (AuditEvent.ADMIN, RequestDecision.DENIED, RequestReason.ROLE)
    assert [(each.event, each.decision, each.reason) for each in recorded(served)] == [denied] * 2


async def test_reading_the_history_of_a_skill_is_a_use_of_the_skill(
    make_skill: MakeSkill, skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    make_skill("one")
    make_skill("gone")
    with open_history(skills.resolve(), tmp_path / "state/skillserve") as history:
        history.record(["one", "gone"], "manual", "The beginning")
        (skills / "gone/SKILL.md").unlink()
        history.record(["gone"], "manual", "The end")
    async with serving(skills, tools=("skill_history",), history=(str(skills),)) as served:
        for name in ("one", "gone", "never"):
            await served.call("skill_history", name=name)
    one, gone, never = recorded(served)
    assert (one.event, one.skill, (one.digest or "")[:7]) == (AuditEvent.READ, "one", "sha256:")
    assert (gone.event, gone.skill, gone.target, gone.decision) == (
        AuditEvent.READ,
        None,
        "gone",
        RequestDecision.ALLOWED,
    )
    assert (never.event, never.target, never.decision) == (AuditEvent.REQUEST, "never", RequestDecision.INVALID)


async def test_a_stream_of_events_of_what_is_not_there_is_recorded_when_it_ends(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    message = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": [HIDDEN]}})
    async with serving(skills, streams=True) as served:
        request = served.client.build_request("POST", served.url, json=message, headers=modern_headers(message))
        response = await served.client.send(request, stream=True)
        assert response.status_code == 200
        served.server.listening.close()
        with anyio.fail_after(60):
            await response.aread()
    (record,) = recorded(served)
    assert (record.event, record.target, record.reason) == (AuditEvent.REQUEST, HIDDEN, RequestReason.UNKNOWN_FILE)
