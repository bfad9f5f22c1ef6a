"""Headers of calls are compared with the schemas of the tools that the caller sees; looking those up is no request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.requests import RequestDecision
from tests.conftest import MakeSkill
from tests.server.serving import modern, modern_headers, serving

DECLARED = """tools:
- name: count
  script: count.py
  parameters: {type: object, properties: {region: {type: string, x-mcp-header: Region}}}
"""


def access(*names: str) -> dict[str, Any]:
    """Return settings in which every caller sees the skills with these names."""
    return {"access_roles": {"reader": names}, "access_default_roles": ("reader",)}


async def test_a_call_is_one_request_where_views_differ(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with serving(skills, **access("one")) as served:
        await served.call("activate_skill", name="one")
        await served.ask("tools/list")
    assert [each.method for each in served.found] == ["tools/call", "tools/list"]
    assert {each.decision for each in served.found} == {RequestDecision.ALLOWED}


@pytest.mark.parametrize(
    ("sees", "region", "status"),
    [("numbers", "north", 200), ("numbers", "south", 400), ("numbers", None, 400), ("other", "south", None)],
)
async def test_a_header_is_compared_with_the_schema_of_a_tool_that_the_caller_sees(
    sees: str, region: str | None, status: int | None, skills: Path, make_skill: MakeSkill
) -> None:
    pytest.importorskip("jsonschema")
    make_skill("numbers", fields=DECLARED, files={"count.py": b"print(1)"})
    make_skill("other")
    header = {} if region is None else {"Mcp-Param-Region": region}

    async with serving(skills, skill_tools=("numbers/*",), **access(sees)) as served:

        async def call(tool: str) -> tuple[int, str]:
            message = modern("tools/call", {"name": tool, "arguments": {"region": "north"}})
            answer = await served.client.post(served.url, json=message, headers=modern_headers(message, **header))
            return answer.status_code, answer.text.replace(tool, "NAME")

        answered, absent = await call("numbers__count"), await call("numbers__coins")
    if status is None:
        assert answered == absent
    else:
        assert answered[0] == status


async def test_a_client_cannot_feign_a_lookup(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with serving(skills, **access("one")) as served:
        message = modern("tools/list")
        headers = {**modern_headers(message), "Mcp-Method": "tools/call", "Mcp-Name": "activate_skill"}
        assert (await served.client.post(served.url, json=message, headers=headers)).status_code == 400
        old = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        headers["Mcp-Protocol-Version"] = "2025-11-25"
        answer = await served.client.post(served.url, json=old, headers=headers)
        # Without a session, or with the list of its tools: never with the list that the SDK is given.
        assert answer.status_code == 400 or "activate_skill" in answer.text
