"""`skillserve catalog` prints what a client with that name receives from a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from mcp import StdioServerParameters

from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run
from tests.server.protocol.test_skills_extension import ask
from tests.server.sessions import REPOSITORY, Era, open_session, server_command, server_environment

LONG = "Reads & writes <forms>. " * 20
CLIENTS = [
    "claude-code",
    "Visual Studio Code",
    "codex-mcp-client",
    "agenvoy",
    "claude-ai",
    "a-client-that-is-not-known",
]


@pytest.fixture
def many(make_skill: MakeSkill, skills: Path) -> Path:
    """Write more skills than some clients show, one of which is always on, and one that is not for models."""
    for number in range(40):
        make_skill(f"skill-{number:02}", description=LONG)
    make_skill("rules", fields='triggers: ["*"]')
    make_skill("deploy", fields="disable-model-invocation: true")
    return skills


def printed(skills: Path, *flags: str) -> str:
    """Return what the command prints, without the line end."""
    done = run("catalog", skills, *flags, SKILLSERVE_USAGE="false")
    assert done.returncode == 0, done.stderr
    return done.stdout.removesuffix("\n")


@pytest.mark.parametrize("client", CLIENTS)
async def test_the_printed_texts_are_the_bytes_that_the_client_receives(many: Path, client: str) -> None:
    flags = ("--client", client)
    description = printed(many, *flags, "--format", "description")
    instructions = printed(many, *flags, "--format", "instructions")
    names = printed(many, *flags, "--format", "names").split("\n")
    told = json.loads(printed(many, *flags, "--json"))
    assert told["instructions"] == instructions
    assert printed(many, *flags) == (
        f"Instructions of the server:\n{instructions}\n\n"
        f"Description of activate_skill:\n{description}\n\n"
        "Names in its enum:\n" + "\n".join(names)
    )
    command, *arguments = server_command(many)
    server = StdioServerParameters(command=command, args=arguments, cwd=REPOSITORY, env=server_environment())
    eras: tuple[Era, ...] = ("handshake", "modern")
    for era in eras:
        async with open_session(server, era, client_name=client) as session:
            (tool,) = (tool for tool in (await session.client.list_tools()).tools if tool.name == "activate_skill")
            assert await session.enum() == names
            received = session.client.instructions
            if era == "modern":
                received = (await ask(session, "server/discover"))["instructions"]
        assert received == instructions
        assert tool.description == description
        assert told["tool"] == tool.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_a_client_has_a_key_and_the_name_that_it_sends(many: Path) -> None:
    by_key, by_name = (
        json.loads(printed(many, "--client", name, "--json")) for name in ("vscode", "Visual Studio Code")
    )
    assert by_key == by_name
    assert (by_key["client"], by_key["title"]) == ("vscode", "VS Code (GitHub Copilot)")
    assert json.loads(printed(many, "--json"))["client"] == "unknown"


def test_a_version_of_a_client_receives_what_that_version_shows(many: Path) -> None:
    def received(name: str) -> str:
        return printed(many, "--client", name, "--format", "description")

    assert len(received("claude-code@2.1.295")) <= 2048 < len(received("claude-code@2.1.296")) <= 4096
    assert received("claude-code@2.1.330") == received("claude-code")
    # The name that a client sends may begin with the sign.
    assert received("@cline/core@3.0.65") == received("@cline/core") == received("cline")


def test_what_is_no_version_of_a_known_client_is_wrong_use(many: Path) -> None:
    done = run("catalog", many, "--client", "claude-code@latest")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'latest' is not a version" in done.stderr


def test_of_a_name_that_is_not_known_a_notice_says_so(many: Path) -> None:
    done = run("catalog", many, "--client", "cluade-code", SKILLSERVE_USAGE="false")
    assert done.returncode == 0
    assert "no facts are known of a client 'cluade-code'" in done.stderr
    assert "Did you mean 'claude-code' or" in done.stderr
    assert done.stdout.removesuffix("\n") == printed(many)


def test_the_xml_is_that_of_the_reference_tools_and_has_all_skills_for_models(many: Path) -> None:
    lines = printed(many, "--format", "xml").split("\n")
    assert (lines[0], lines[-1]) == ("<available_skills>", "</available_skills>")
    assert lines.count("<skill>") == 41
    assert lines[1:5] == ["<skill>", "<name>", "rules", "</name>"]
    assert str(many.resolve() / "rules" / "SKILL.md") in lines
    assert "deploy" not in lines


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--json", "--format", "names"], "--json prints everything"),
        (["--format", "xml", "--client", "codex"], "leave out --client"),
        (["--format", "html"], "--format"),
    ],
)
def test_flags_that_contradict_each_other_are_wrong_use(flags: list[str], said: str, many: Path) -> None:
    done = run("catalog", many, *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("flags", "stdout"),
    [
        ([], ""),
        (["--format", "names"], ""),
        (["--format", "xml"], "<available_skills>\n</available_skills>\n"),
    ],
)
def test_without_skills_for_models_the_answer_is_no(
    flags: list[str], stdout: str, make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("deploy", fields="disable-model-invocation: true")
    done = run("catalog", skills, *flags)
    assert (done.returncode, done.stdout) == (1, stdout)
    assert "no skill is offered to models" in done.stderr
    told = json.loads(run("catalog", skills, "--json").stdout)
    assert told == {"client": "unknown", "title": "an unknown client", "instructions": None, "tool": None}


@pytest.mark.skipif(sys.platform == "win32", reason="names there cannot hold these characters")
def test_odd_names_are_printed_as_they_are_sent(make_skill: MakeSkill, skills: Path) -> None:
    folder = make_skill("a")
    text = (folder / "SKILL.md").read_text()
    (folder / "SKILL.md").write_text(text.replace("name: a", 'name: "</skill> é \\u202e"'))
    told = json.loads(printed(skills, "--json"))
    assert told["tool"]["inputSchema"]["properties"]["name"]["enum"] == printed(skills, "--format", "names").split("\n")
