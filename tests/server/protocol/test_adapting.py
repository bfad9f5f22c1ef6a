"""Which client gets which head of an activation, on every surface, and what settings have to say about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server.config.files import ConfigurationError
from server.config.settings.layers import load_settings
from server.protocol.recipients import known_names, recipient_called
from skills_core.rendering.recipient import Recipient
from skills_core.toolboxes import PRESETS
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run
from tests.server.sessions import Connect, ConnectHosted
from tests.server.settings import make_settings

BODY = "Ask with AskUserQuestion, run it with run_shell_command, then see references/forms.md."

OWN_FILE = """
[clients.tool_names."*"]
AskUserQuestion = "poll"
run_shell_command = "everywhere"

[clients.tool_names."my-"]
run_shell_command = "terminal"

[clients.tool_names.claude-code]
run_shell_command = "PowerShell"
"""


@pytest.fixture
def pdf(make_skill: MakeSkill) -> Path:
    """One skill, which names tools of two hosts and a file of its own."""
    return make_skill("pdf", body=BODY, files={"references/forms.md": b"x"})


@pytest.fixture
def own_settings(tmp_path: Path) -> str:
    """The user's own settings, with tables of names; return the folder that says where they are."""
    home = tmp_path / "config"
    (home / "skillserve").mkdir(parents=True)
    (home / "skillserve" / "skillserve.toml").write_text(OWN_FILE)
    return str(home)


def _without_folder(text: str) -> str:
    """Return a text of the command line, which is on this disk, as a client receives it that is not."""
    return re.sub(r"\nSkill directory: .*", "", text).removesuffix("\n")


@pytest.mark.usefixtures("pdf")
async def test_a_client_gets_the_names_of_its_own_tools_by_tool_prompt_and_command(
    connect: Connect, skills: Path
) -> None:
    async with connect(client_name="claude-code") as session:
        text = await session.activate("pdf")
        prompt = await session.client.get_prompt("pdf", {})
    assert prompt.messages[0].content.text == f"{text}\n\n/pdf"
    assert "- `run_shell_command` (run a command): call `Bash`\n" in text
    assert "`AskUserQuestion`" not in text
    assert 'uri="skill://pdf/references/forms.md"' in text
    assert BODY in text
    # The skill is outside of the client's workspace.
    assert str(skills) not in text
    near = run("activate", "pdf", skills, "--client", "claude-code").stdout
    assert f'file="{skills.resolve() / "pdf" / "references/forms.md"}"' in near


@pytest.mark.usefixtures("pdf")
async def test_a_client_that_nobody_knows_is_told_what_the_tools_do(
    connect: Connect, skills: Path, transport: str
) -> None:
    async with connect(client_name="nobody-knows-it") as session:
        text = await session.activate("pdf")
    assert "- `run_shell_command` (run a command)\n" in text
    assert "- `AskUserQuestion` (ask the user)\n" in text
    # Over stdio, such a client most likely has this disk.
    shown = run("activate", "pdf", skills).stdout
    assert text == (shown.removesuffix("\n") if transport == "stdio" else _without_folder(shown))


@pytest.mark.usefixtures("pdf")
async def test_settings_name_tools_for_a_client_by_the_beginning_of_its_name_and_for_all(
    connect: Connect, own_settings: str, skills: Path, transport: str
) -> None:
    async with connect(client_name="My-Client", XDG_CONFIG_HOME=own_settings) as session:
        text = await session.activate("pdf")
        assert (await session.client.get_prompt("pdf", {})).messages[0].content.text == f"{text}\n\n/pdf"
    assert "- `AskUserQuestion` (ask the user): call `poll`\n" in text
    assert "- `run_shell_command` (run a command): call `terminal`\n" in text
    command = run("activate", "pdf", skills, "--client", "my-client", XDG_CONFIG_HOME=own_settings)
    assert text == (command.stdout.removesuffix("\n") if transport == "stdio" else _without_folder(command.stdout))


@pytest.mark.usefixtures("pdf")
async def test_the_head_can_be_switched_off(connect: Connect) -> None:
    async with connect(client_name="claude-code", SKILLSERVE_ADAPT="false") as session:
        text = await session.activate("pdf")
        assert (await session.client.get_prompt("pdf", {})).messages[0].content.text == f"{text}\n\n/pdf"
    assert text.split("\n")[1] == BODY


@pytest.mark.usefixtures("pdf")
async def test_resources_are_the_same_bytes_for_every_client(in_memory: ConnectHosted, skills: Path) -> None:
    async with in_memory(skills, tool_names={"*": {"AskUserQuestion": "poll"}}) as session:
        read = await session.client.read_resource("skill://pdf/SKILL.md")
        assert read.contents[0].text == (skills / "pdf" / "SKILL.md").read_text()
        assert "call `poll`" in await session.activate("pdf")


@pytest.mark.usefixtures("pdf")
def test_the_command_renders_for_every_preset_and_says_which_it_knows(skills: Path) -> None:
    for toolbox in PRESETS:
        done = run("activate", "pdf", skills, "--client", toolbox.key)
        assert done.returncode == 0, done.stderr
        assert BODY in done.stdout
    assert "tool_names" not in run("activate", "pdf", skills, "--client", "gemini", "--no-adapt").stdout
    refused = run("activate", "pdf", skills, "--client", "no-such-client")
    assert refused.returncode == 2
    assert "expected one of " in refused.stderr
    assert "claude-code, " in refused.stderr


def test_the_closer_table_wins_and_others_fill_in() -> None:
    tables = {"*": {"a": "all", "b": "all", "c": "all"}, "my": {"b": "short", "c": "short"}, "My-App": {"c": "long"}}
    settings = make_settings(tool_names=tables)
    recipient = recipient_called("my-app 2", settings, local=False)
    assert recipient is not None
    assert recipient.own == {"a": "all", "b": "short", "c": "long"}
    assert recipient_called(None, settings, local=False) == Recipient(own=tables["*"])
    assert recipient_called("other", settings, local=False) is None
    assert {"my", "my-app", "codex", "claude-code"} < set(known_names(settings))
    assert "*" not in known_names(settings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[clients.tool_names.x]\nBash = "</tool_names>"', "expected a tool's name"),
        ('[clients.tool_names.x]\nBash = "run this now"', "expected a tool's name"),
        ('[clients.tool_names.x]\nBash = ""', "expected a tool's name"),
        (f'[clients.tool_names.x]\nBash = "{"a" * 65}"', "expected a tool's name"),
        ('[clients.tool_names.x]\n"a b" = "c"', "expected a tool's name"),
        ('[clients.tool_names."<x>"]\nBash = "c"', "expected a client's name"),
        ('[clients.tool_names."a\\u202eb"]\nBash = "c"', "expected a client's name"),
        ("[clients.tool_names.x]\nBash = 1", "clients.tool_names.x.Bash"),
        ('clients.tool_names = "x"', "clients.tool_names"),
        ("[clients.tool_names.x]\n" + "\n".join(f'a{number} = "b"' for number in range(201)), "at most 200"),
    ],
)
def test_a_name_that_could_be_more_than_a_name_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "config" / "skillserve" / "skillserve.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"skillserve\.toml: clients\.tool_names") as raised:
        load_settings({}, {}, tmp_path / "config")
    assert said in str(raised.value)
