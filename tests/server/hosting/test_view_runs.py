"""What is performed for a client knows its view: runs, workflows, scripts and the reasons of the guard."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from server.config.settings.tools import OptionalTool
from skills_core.testing import Call
from tests.conftest import write_skill
from tests.model_endpoint import ModelEndpoint
from tests.server.hosting.two_views import host_of, serving_http, write_skills
from tests.server.hosting.walking import Answer, Asker, over_http

PERFORMING = {
    "tools": (
        OptionalTool("run_skill"),
        OptionalTool("run_workflow"),
        OptionalTool("run_skill_script"),
        OptionalTool("check_tool_call"),
    )
}


@asynccontextmanager
async def teams(tmp_path: Path, **settings: Any) -> AsyncGenerator[tuple[Asker, Asker]]:
    """Serve, and connect a client of the red team, and one of the blue team."""
    sources = write_skills(tmp_path)
    async with (
        serving_http(host_of(sources, **{**PERFORMING, **settings})) as url,
        over_http(url, "modern", "red-client") as red,
        over_http(url, "modern", "blue-client") as blue,
    ):
        yield red, blue


def text_of(answer: Answer) -> str:
    return json.dumps(answer["content"])


@pytest.mark.parametrize(("word", "verdict"), [("danger", "deny"), ("confirm", "confirm")])
async def test_the_guard_protects_by_rules_that_it_does_not_disclose(tmp_path: Path, word: str, verdict: str) -> None:
    async with teams(tmp_path) as (red, blue):
        call = {"tool": "sh", "arguments": {"command": f"quokka-{word}"}}
        seen = (await red.call("check_tool_call", **call))["structuredContent"]
        hidden = await blue.call("check_tool_call", **call)
        plain = (await blue.call("check_tool_call", tool="sh", arguments={"command": "ls"}))["structuredContent"]
    assert (seen["decision"], seen["pattern"], seen["skill"]) == (verdict, f"quokka-{word}", "quokka-main")
    told = hidden["structuredContent"]
    assert (told["decision"], told["pattern"], told["skill"]) == (verdict, None, None)
    assert "quokka" not in json.dumps(hidden)
    assert plain["decision"] == "allow"


async def test_a_script_is_refused_by_a_rule_that_is_not_disclosed(tmp_path: Path) -> None:
    script = {"skill": "wombat-main", "path": "wombat.py", "args": ["quokka-danger"]}
    async with teams(tmp_path) as (_, blue):
        answer = await blue.call("run_skill_script", **script)
    assert answer["isError"]
    assert "is denied by a rule of this server" in text_of(answer)
    assert "quokka" not in text_of(answer)


async def test_a_run_has_the_files_and_reasons_of_its_clients_view(
    tmp_path: Path, endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    endpoint.script = [
        Call("read_skill_file", {"path": "red/quokka-inner/SKILL.md"}),
        Call("read_skill_file", {"path": "quokka-danger"}),
        "the end",
    ]
    async with teams(tmp_path, model=endpoint.model) as (red, blue):
        answer = await blue.call("run_skill", name="outer", message="go")
        assert answer["structuredContent"]["output"] == "the end"
        known = [message["content"] for message in endpoint.requests[-1]["messages"] if message["role"] == "tool"]
        endpoint.requests.clear()
        seen = await red.call("run_skill", name="outer", message="go")
        full = [message["content"] for message in endpoint.requests[-1]["messages"] if message["role"] == "tool"]
    assert "no file 'red/quokka-inner/SKILL.md'" in known[0]
    assert "many a quokka" in full[0]
    assert "by a rule of this server" in known[1]
    assert "the skill quokka-main calls dangerous" in full[1]
    reasons = [call["reason"] for call in answer["structuredContent"]["tool_calls"]]
    assert "quokka" not in json.dumps(reasons).replace("no file 'red/quokka-inner/SKILL.md'", "")
    assert "quokka" in json.dumps(seen["structuredContent"]["tool_calls"])


async def test_a_run_of_a_hidden_skill_is_refused_like_one_of_an_absent_skill(
    tmp_path: Path, endpoint: ModelEndpoint
) -> None:
    async with teams(tmp_path, model=endpoint.model) as (_, blue):
        hidden = await blue.call("run_skill", name="quokka-main")
        absent = await blue.call("run_skill", name="quozza-main")
    assert text_of(hidden).replace("quokka", "quozza") == text_of(absent)


async def test_a_run_offers_and_has_only_skills_of_its_clients_view(
    tmp_path: Path, endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    always = "metadata: {jdai: {always: true}}"
    write_skill(tmp_path / "high" / "red", "quokka-rule", "A quokka rule.", "Hug quokkas.", always)
    endpoint.script = ["done", "done", Call("activate_skill", {"name": "quokka-main"}), "done"]
    async with teams(tmp_path, model=endpoint.model) as (red, blue):
        for team in (red, blue, blue):
            assert not (await team.call("run_skill", name="plain"))["isError"]
    seen, *hidden = map(json.dumps, endpoint.requests)
    assert "Hug quokkas." in seen
    assert "quokka-main" in seen
    assert "quokka" not in hidden[0]
    assert "wombat-main" in hidden[0]
    assert "must be one of" in hidden[-1] or "not one of" in hidden[-1]


async def test_workflows_with_a_hidden_step_are_unknown(
    tmp_path: Path, endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    flows = tmp_path / "flows"
    flows.mkdir()
    for name, target in (("quokka-flow", "quokka-main"), ("plain-flow", "plain"), ("broken-flow", "no-skill")):
        step = f"steps: [{{kind: skill, name: It, target: {target}}}]"
        (flows / f"{name}.yaml").write_text(f"name: {name}\ndescription: Performs {target}.\n{step}\n")
    endpoint.script = ["done"]
    async with teams(tmp_path, model=endpoint.model, workflows=(str(flows),)) as (red, blue):
        lists = [(await each.call("run_workflow"))["structuredContent"]["workflows"] for each in (red, blue)]
        refused = text_of(await blue.call("run_workflow", name="quokka-flow"))
        absent = text_of(await blue.call("run_workflow", name="quokka-flaw"))
        performed = await blue.call("run_workflow", name="plain-flow")
    assert [[flow["name"] for flow in each] for each in lists] == [["plain-flow", "quokka-flow"], ["plain-flow"]]
    assert refused == absent.replace("flaw", "flow")
    assert performed["structuredContent"]["output"] == "done"


async def test_news_of_what_a_model_loaded_are_of_its_view(tmp_path: Path) -> None:
    sources = write_skills(tmp_path)
    host = host_of(sources)
    async with serving_http(host) as url, over_http(url, "handshake", "blue-client") as blue:
        await blue.call("activate_skill", name="outer")
        (sources[0] / "common" / "outer" / "red" / "quokka-inner" / "new.txt").write_text("New.")
        await host.reload()
        silent = await blue.call("find_skills", query="things")
        write_skill(sources[0] / "common", "outer", "Does other things.")
        await host.reload()
        news = await blue.call("find_skills", query="things")
    assert "which you loaded" not in text_of(silent)
    assert "The skill outer, which you loaded, has changed" in text_of(news)
