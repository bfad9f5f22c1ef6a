"""Requests that are refused before a message is read have a record, and so a counter; all others have one only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.requests import HTTP_METHOD
from tests.conftest import MakeSkill
from tests.server.serving import modern, modern_headers, serving

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MODERN = {**JSON, "Mcp-Protocol-Version": "2026-07-28"}

REFUSED: list[tuple[int, dict[str, str], str, str, str]] = [
    (403, {**JSON, "Origin": "http://evil.example"}, "{}", "denied", "foreign_origin"),
    (421, {**JSON, "Host": "evil.example"}, "{}", "denied", "foreign_host"),
    (400, JSON, "{", "invalid", "invalid_request"),
    (400, MODERN, "{", "invalid", "invalid_request"),
    (413, JSON, '"' + "x" * 20_000 + '"', "invalid", "too_large"),
]
NAMES = ["origin", "host", "json", "modern json", "size"]


@pytest.mark.parametrize(("status", "headers", "body", "decision", "reason"), REFUSED, ids=NAMES)
async def test_a_request_that_is_refused_unread_is_counted_once_with_its_reason(
    status: int, headers: dict[str, str], body: str, decision: str, reason: str, make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    async with serving(skills, metrics=True, limits_request_bytes=10_000) as served:
        answer = await served.client.post(served.url, content=body, headers=headers)
        figures = (await served.client.get(served.at("/metrics"))).text
    assert answer.status_code == status
    (record,) = served.found
    assert (record.method, str(record.decision), record.reason) == (HTTP_METHOD, decision, reason)
    assert record.target == ("/mcp" if decision == "denied" else "")
    labels = f'decision="{decision}",era="",method="http",reason="{reason}",tool=""'
    assert f"skillserve_requests_total{{{labels}}} 1.0" in figures
    assert (f'skillserve_denials_total{{reason="{reason}"}} 1.0' in figures) is (decision == "denied")


@pytest.mark.parametrize("path", ["/metrics", "/admin/status"])
async def test_a_page_of_another_site_at_the_routes_of_operators_is_counted(
    path: str, make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    async with serving(skills, metrics=True, admin_token="a" * 32) as served:
        answer = await served.client.get(served.at(path), headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403
    assert [(each.method, each.reason, each.target) for each in served.found] == [("http", "foreign_origin", path)]


@pytest.mark.parametrize(
    "message",
    [
        modern("tools/list"),
        modern("no/such/method"),
        modern("resources/read", {"uri": 5}),
        modern("tools/call", {"name": 5, "arguments": []}),
        modern("prompts/get", {"name": "nothing"}),
    ],
    ids=["tools/list", "unknown method", "invalid uri", "invalid tool", "unknown prompt"],
)
async def test_a_message_that_is_read_has_one_record_whatever_its_status(
    message: dict[str, Any], make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    async with serving(skills) as served:
        await served.client.post(served.url, json=message, headers=modern_headers(message))
    assert len(served.found) == 1
