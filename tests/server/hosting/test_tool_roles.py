"""Tools by role: a tool that a caller may not use does not exist for it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.login.static_tokens import TokenFile
from server.config.machine import tokens_file
from server.config.settings.tools import OptionalTool
from server.hosting.views import role_rule
from server.requests import Records, RequestDecision, RequestReason, RequestRecord
from tests.conftest import write_skill
from tests.model_endpoint import ModelEndpoint
from tests.server.hosting.two_views import SWITCHED_ON, WORDS, host_of, serving_http, write_skills
from tests.server.hosting.walking import Answer, comparable, over_http, probe, walk
from tests.server.sessions import Era
from tests.server.settings import make_settings

ROLES = {"reader": ["*"], "operator": [], "runner": []}
TOOLS = {
    "operator": ["skills_*", "reload_skills", "skill_context", "check_tool_call", "run_skill_script", "quokka-main__*"],
    "runner": ["run_skill"],
}
HELD = {"anna": (), "bob": ("operator",), "carl": ("runner",)}
DENIED = (*TOOLS["operator"][1:-1], "skills_status", "quokka-main__quokka-tool")
STATUS = "skillserve://status"


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = TokenFile(tokens_file())
    return {name: file.add(name, roles, None) for name, roles in HELD.items()}


@asynccontextmanager
async def serving(root: Path, records: Records | None = None, **settings: Any) -> AsyncGenerator[str]:
    """Serve with tools by role, unless the settings say otherwise."""
    sources = write_skills(root)
    access = {"access_roles": ROLES, "access_default_roles": ("reader",), "access_tools": TOOLS, **settings}
    rule = role_rule(make_settings(**access).access)
    async with serving_http(host_of(sources, rule, records, login_tokens=True, **access)) as url:
        yield url


async def asked(root: Path, era: Era, token: str, **settings: Any) -> dict[str, Answer]:
    """Return the answers to a walk, and to requests for the tools of others."""
    async with serving(root, **settings) as url, over_http(url, era, "client", token) as asker:
        await walk(asker)
        await probe(asker, "quokka-main")
        for tool in (*DENIED, "run_skill"):
            await asker.call(tool, name="quokka-main")
        await asker.ask("resources/read", uri=STATUS)
        await asker.ask("resources/subscribe", uri=STATUS)
        await asker.ask("resources/unsubscribe", uri=STATUS)
    return comparable(asker.answers, root)


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_caller_is_answered_as_by_a_server_without_the_tools_of_others(
    tmp_path: Path, tokens: dict[str, str], era: Era
) -> None:
    """Without them switched on, every answer is the same, whatever names the tool."""
    mixed = await asked(tmp_path / "mixed", era, tokens["anna"])
    without = await asked(tmp_path / "without", era, tokens["anna"], tools=(), skill_tools=())
    assert mixed.keys() == without.keys()
    assert [label for label in mixed if mixed[label] != without[label]] == []
    refused = [
        mixed[f"tools/call {json.dumps({'arguments': {'name': 'quokka-main'}, 'name': tool})}"] for tool in DENIED
    ]
    assert {answer["error"]["code"] for answer in refused} == {-32602}


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_caller_with_the_role_has_the_tools(tmp_path: Path, tokens: dict[str, str], era: Era) -> None:
    write_skill(tmp_path / "high" / "common", "scripted", body="Run scripts/go.py.", files={"scripts/go.py": b"x"})
    async with serving(tmp_path) as url:
        listed = {}
        for name in HELD:
            async with over_http(url, era, "client", tokens[name]) as asker:
                listed[name] = {tool["name"] for tool in (await asker.ask("tools/list"))["tools"]}
                status = await asker.call("skills_status")
                script = await asker.call("run_skill_script", skill="quokka-main", path="quokka.py")
                assert ("error" in status, "error" in script) == (name != "bob", name != "bob")
                text = (await asker.call("activate_skill", name="scripted"))["content"][0]["text"]
                assert ("run_skill_script" in text) is (name == "bob")
    common = {"activate_skill", "read_skill_file", "find_skills"}
    assert listed == {"anna": common, "bob": common | {*DENIED}, "carl": common}


async def test_without_roles_of_skills_all_see_all_skills(tmp_path: Path, tokens: dict[str, str]) -> None:
    settings: dict[str, Any] = {"access_roles": {}, "access_default_roles": ()}
    async with serving(tmp_path, **settings) as url, over_http(url, "modern", "client", tokens["anna"]) as asker:
        tools = {tool["name"] for tool in (await asker.ask("tools/list"))["tools"]}
        names = {skill["uri"].split("/")[-2] for skill in await asker.pages("skills/list", "skills")}
    assert tools == {"activate_skill", "read_skill_file", "find_skills"}
    assert {"quokka-main", "wombat-main", "plain"} <= names


async def test_tools_for_schedules_are_not_listed_where_there_are_roles(tmp_path: Path, tokens: dict[str, str]) -> None:
    settings: dict[str, Any] = {"tools": (OptionalTool("list_schedules"),), "access_tools": {}}
    async with serving(tmp_path, **settings) as url, over_http(url, "modern", "client", tokens["bob"]) as asker:
        tools = {tool["name"] for tool in (await asker.ask("tools/list"))["tools"]}
        answer = await asker.call("list_schedules")
    assert "list_schedules" not in tools
    assert answer["error"]["message"] == "Unknown tool: list_schedules"


async def test_the_record_tells_a_denied_tool_from_an_unknown_one(tmp_path: Path, tokens: dict[str, str]) -> None:
    seen: list[RequestRecord] = []
    records = Records()
    records.add(seen.append)
    async with serving(tmp_path, records) as url, over_http(url, "modern", "client", tokens["anna"]) as asker:
        denied = await asker.call("reload_skills")
        unknown = await asker.call("reload_skillz")
    assert json.dumps(denied).replace("skills", "skillz") == json.dumps(unknown)
    assert [(each.tool, each.decision, each.reason) for each in seen if each.method == "tools/call"] == [
        ("reload_skills", RequestDecision.DENIED, RequestReason.ROLE),
        ("", RequestDecision.INVALID, RequestReason.UNKNOWN_TOOL),
    ]


async def test_a_run_has_no_tool_that_its_client_may_not_use(
    tmp_path: Path, tokens: dict[str, str], endpoint: ModelEndpoint
) -> None:
    endpoint.script = ["done", "done"]
    tools = (*SWITCHED_ON["tools"], OptionalTool("run_skill"))
    rights = {"operator": ["*"], "runner": ["run_skill"]}
    had = []
    async with serving(tmp_path, tools=tools, model=endpoint.model, access_tools=rights) as url:
        for name in ("carl", "bob"):
            async with over_http(url, "modern", "client", tokens[name]) as asker:
                assert not (await asker.call("run_skill", name="quokka-main", message="go"))["isError"]
            had.append({tool["function"]["name"] for tool in endpoint.requests[-1]["tools"]})
    assert had[1] - had[0] == {"run_skill_script", "quokka-tool"}
    assert "read_skill_file" in had[0]


def test_every_optional_tool_is_in_the_settings_of_a_view(tmp_path: Path) -> None:
    """Denying by the settings of a view works for a tool only if the settings name it."""
    rule = role_rule(make_settings(access_roles=ROLES, access_tools={"reader": ["*"]}).access)
    host = host_of(write_skills(tmp_path), rule, tools=tuple(OptionalTool))
    allowed = host.view_called(frozenset({"reader"})).settings.tools.enabled
    assert {each for each in OptionalTool if each not in allowed} == {
        each for each in OptionalTool if "schedule" in each
    }
    assert host.view_called(frozenset()).settings.tools.enabled == ()


NUMBERS = """tools:
- name: double
  description: Doubles a number.
  script: double.py
  parameters: {type: object, properties: {n: {type: integer}}}
"""


@pytest.mark.parametrize(
    ("switched_on", "tools"),
    [("blue/numbers/*", {"numbers__double"}), ("red/numbers/*", set()), ("numbers/*", set())],
)
def test_settings_name_a_skill_alike_for_all_callers(tmp_path: Path, switched_on: str, tools: set[str]) -> None:
    for team in WORDS:
        write_skill(tmp_path / team, "numbers", fields=NUMBERS, files={"double.py": b"print(2)"})
    host = host_of((tmp_path,), skill_tools=(switched_on,))
    view = host.view_called(frozenset({"blue"}))
    # To this team the name is unique; a setting that names the other team's skill does not concern its own.
    assert [skill.key for skill in view.catalog.active] == ["numbers"]
    assert view.declared.keys() == tools
