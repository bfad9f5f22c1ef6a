"""`skillserve run` with tools, a model over real HTTP; and the tools that skills declare, as clients have them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skills_core.testing.script import Call
from tests.conftest import MakeSkill, write_skill
from tests.model_endpoint import ModelEndpoint
from tests.server.sessions import Connect, ConnectHosted
from tests.server.test_cli import run

SECOND = str(Path(__file__).with_name("second_server.py"))

TOOLS = """tools:
  - name: double
    description: Doubles a number.
    script: scripts/double.py
    parameters: {type: object, properties: {n: {type: integer}}, required: [n]}
"""
DOUBLE = b"import json, sys\nprint(json.load(sys.stdin)['n'] * 2)\n"
FILES = {"scripts/double.py": DOUBLE, "references/more.md": b"More.\n"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    return folder


@pytest.fixture
def performed(endpoint: ModelEndpoint, tmp_path: Path, skills: Path) -> Any:
    """Perform the skill `worker`, and return what came of it as JSON."""

    def perform(*flags: object, script: list[Any], **environment: str) -> dict[str, Any]:
        endpoint.script = script
        state = {"XDG_STATE_HOME": str(tmp_path / "state"), **environment}
        done: subprocess.CompletedProcess[str] = run(
            "run", "worker", "do it", skills, "--model", endpoint.model, "--json", *flags, **state
        )
        assert done.stdout, done.stderr
        outcome: dict[str, Any] = json.loads(done.stdout)
        return outcome

    return perform


def decisions(outcome: dict[str, Any]) -> list[tuple[str, str]]:
    return [(call["decision"], call["text"]) for call in outcome["tool_calls"]]


def test_a_run_uses_the_tools_that_are_allowed_and_permitted(
    make_skill: MakeSkill, performed: Any, work: Path, endpoint: ModelEndpoint
) -> None:
    make_skill("worker", fields=f"allowed-tools: Read(*.txt) Bash({sys.executable} -c:*)\n{TOOLS}", files=FILES)
    outcome = performed(
        *("--workspace", work, "--run-tool", "read_file", "--run-tool", "run_command", "--run-tool", "write_file"),
        *("--skill-tool", "worker/double"),
        script=[
            Call("read_file", {"path": "a.txt"}),
            Call("read_file", {"path": "a.md"}),
            Call("run_command", {"command": [sys.executable, "-c", "print(6 * 7)"]}),
            Call("write_file", {"path": "a.txt", "content": "x"}),
            Call("double", {"n": 4}),
            Call("read_skill_file", {"path": "references/more.md"}),
            "done",
        ],
    )
    assert decisions(outcome) == [
        ("done", "hello\n"),
        ("not_permitted", outcome["tool_calls"][1]["text"]),
        ("done", "[exit code 0]\n42"),
        ("not_permitted", outcome["tool_calls"][3]["text"]),
        ("done", "8"),
        ("done", "More.\n"),
    ]
    offered = {tool["function"]["name"] for tool in endpoint.requests[0]["tools"]}
    assert offered == {"read_file", "run_command", "double", "read_skill_file"}


def test_a_run_uses_the_tools_of_other_servers_and_keeps_their_secrets(
    make_skill: MakeSkill, performed: Any, tmp_path: Path
) -> None:
    make_skill("worker", fields="allowed-tools: mcp__second__add mcp__second__environment")
    servers = {
        "second": {"command": sys.executable, "args": [SECOND, "stdio"], "env": {"TOKEN": "${HIDDEN_TOKEN}"}},
        "unused": {"command": "no-such-program"},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    outcome = performed(
        *("--mcp-servers", tmp_path / "mcp.json"),
        script=[
            Call("second__add", {"a": 1, "b": 2}),
            Call("second__environment", {}),
            Call("second__die", {}),
            "the token is t0ps3cret",
        ],
        HIDDEN_TOKEN="t0ps3cret",  # noqa: S106 - what is looked for
    )
    assert decisions(outcome)[0] == ("done", "3")
    assert outcome["tool_calls"][2]["decision"] == "not_permitted"
    trace = next((tmp_path / "state").rglob("*.json")).read_text()
    assert "t0ps3cret" not in trace
    assert "mcpServers.second.env.TOKEN" in trace


def test_without_a_folder_no_tool_of_the_workspace_is_there(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    make_skill("worker")
    done = run("run", "worker", "do it", skills, "--model", endpoint.model, "--run-tool", "read_file")
    assert (done.returncode, "say which folder they may work in, with --workspace DIR" in done.stderr) == (2, True)
    flags = ("--run-tool", "read_file", "--workspace", tmp_path / "none")
    done = run("run", "worker", "do it", skills, "--model", endpoint.model, *flags)
    assert (done.returncode, "this is no folder" in done.stderr) == (2, True)


async def test_a_declared_tool_is_a_tool_of_the_server_where_settings_say_so(connect: Connect, skills: Path) -> None:
    write_skill(skills, "numbers", fields=TOOLS, files=FILES)
    async with connect(SKILLSERVE_SKILL_TOOLS="numbers/double") as session:
        listed = {tool.name: tool for tool in (await session.client.list_tools()).tools}
        tool = listed["numbers__double"]
        assert tool.description == "Doubles a number."
        assert tool.annotations.read_only_hint is False
        assert tool.annotations.destructive_hint is True
        result = await session.client.call_tool("numbers__double", {"n": 21})
        assert (result.is_error, result.content[0].text) == (False, "42")
        result = await session.client.call_tool("numbers__double", {"n": "x"})
        assert (result.is_error, "arguments.n: 'x' is not of type 'integer'" in result.content[0].text) == (True, True)


async def test_declared_tools_are_off_unless_they_are_named(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "numbers", fields=TOOLS, files=FILES)
    for named in ((), ("numbers/other",), ("number/double",), ("*/double",)):
        async with in_memory(skills, watch=False, skill_tools=named) as session:
            assert not [tool for tool in (await session.client.list_tools()).tools if "__" in tool.name]
            with pytest.raises(Exception, match="Unknown tool"):
                await session.client.call_tool("numbers__double", {"n": 1})


async def test_patterns_decide_on_declared_tools_and_nobody_can_be_asked(
    in_memory: ConnectHosted, skills: Path
) -> None:
    guard = "danger_patterns: ['\"n\":13']\nconfirm_patterns: ['\"n\":14']\n"
    write_skill(skills, "numbers", fields=guard + TOOLS, files=FILES)
    async with in_memory(skills, watch=False, skill_tools=("numbers/*",)) as session:
        denied = await session.client.call_tool("numbers__double", {"n": 13})
        assert (denied.is_error, "calls dangerous" in denied.content[0].text) == (True, True)
        asked = await session.client.call_tool("numbers__double", {"n": 14})
        assert (asked.is_error, "Nobody can be asked" in asked.content[0].text) == (True, True)


async def test_clients_are_told_when_the_tools_of_a_skill_change(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "numbers", fields=TOOLS, files=FILES)
    async with in_memory(skills, watch=False, skill_tools=("numbers/*",)) as session:
        write_skill(skills, "numbers", fields=TOOLS.replace("Doubles", "Really doubles"), files=FILES)
        await session.host.reload()
        await session.until_told("tools")
        listed = {tool.name: tool.description for tool in (await session.client.list_tools()).tools}
        assert listed["numbers__double"] == "Really doubles a number."
        session.told.clear()
        (skills / "numbers" / "scripts" / "double.py").unlink()
        await session.host.reload()
        await session.until_told("tools")
        assert "numbers__double" not in {tool.name for tool in (await session.client.list_tools()).tools}


async def test_two_skills_may_declare_a_tool_of_one_name(in_memory: ConnectHosted, skills: Path) -> None:
    for name in ("one", "two"):
        write_skill(skills, name, fields=TOOLS, files=FILES)
    async with in_memory(skills, watch=False, skill_tools=("one/*", "two/*")) as session:
        names = [tool.name for tool in (await session.client.list_tools()).tools]
        assert [name for name in names if "__" in name] == ["one__double", "two__double"]
