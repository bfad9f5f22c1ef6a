"""Whole commands, in a home of their own: what they write, keep and say."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from server.capabilities.connect.clients import HttpServer, LocalServer, deeplink, entry_for, known_clients
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run

OWN = '{\n  // mine\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def connect(home: Path, *words: str | Path) -> Any:
    return run("connect", *words, HOME=str(home), PATH=os.defpath, CODEX_HOME=str(home / ".codex"))


def test_installed_clients_are_connected_and_disconnected_byte_for_byte(
    home: Path, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    cursor, codex = home / ".cursor/mcp.json", home / ".codex/config.toml"
    for file, text in ((cursor, OWN), (codex, 'model = "x" # mine\n')):
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
    done = connect(home, skills, "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2
    entry = json.loads(cursor.read_text(encoding="utf-8").replace("// mine", ""))["mcpServers"]["skills"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-2:] == ["serve", str(skills)]
    again = connect(home, skills, "--yes")
    assert again.stdout.count("nothing to change") == 2
    assert connect(home, skills, "--remove", "--yes").returncode == 0
    assert cursor.read_text(encoding="utf-8") == OWN
    assert codex.read_text(encoding="utf-8") == 'model = "x" # mine\n'
    assert [*home.rglob("*.before-skillserve")] == []


@pytest.mark.cold_start
def test_what_a_client_starts_is_ours_in_the_folder_of_a_stranger_too(
    home: Path, skills: Path, tmp_path: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    assert connect(home, "cursor", skills, "--yes").returncode == 0
    entry = json.loads((home / ".cursor/mcp.json").read_text(encoding="utf-8"))["mcpServers"]["skills"]
    (tmp_path / "server").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (tmp_path / "server" / name).write_text("print('a stranger')", encoding="utf-8")
    started = [entry["command"], *entry["args"]]
    done = subprocess.run(started, cwd=tmp_path, input="", capture_output=True, text=True, check=False)
    assert "a stranger" not in done.stdout
    assert done.returncode == 0, done.stderr


def test_a_file_that_was_not_there_is_gone_again(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    file = home / ".gemini/settings.json"
    assert connect(home, "gemini-cli", skills, "--yes").returncode == 0
    assert file.exists()
    assert connect(home, "gemini-cli", skills, "--remove", "--yes").returncode == 0
    assert not file.exists()


def test_nothing_is_written_into_a_file_that_cannot_be_read(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text("{ broken", encoding="utf-8")
    done = connect(home, "cursor", skills, "--yes")
    assert done.returncode == 1
    assert "this is not valid JSON: line 1, column 3" in done.stdout
    assert file.read_text(encoding="utf-8") == "{ broken"


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_is_left_to_its_owner(home: Path, skills: Path, tmp_path: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    target = tmp_path / "dotfiles.json"
    target.write_text("{}", encoding="utf-8")
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(target)
    done = connect(home, "cursor", skills, "--yes")
    assert done.returncode == 1
    assert f"this is a link to {target}" in done.stdout
    assert target.read_text(encoding="utf-8") == "{}"


def test_a_server_that_would_not_answer_is_not_written(home: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = connect(home, "cursor", empty, "--yes")
    assert done.returncode == 1
    assert "does not work as Cursor will use it: it answers without any tool" in done.stdout
    assert not (home / ".cursor").exists()


def test_a_word_that_is_neither_folder_nor_client_is_refused_with_a_hint(home: Path) -> None:
    done = connect(home, "curser")
    assert done.returncode == 2
    assert "did you mean the client cursor?" in done.stderr


def test_an_address_is_written_with_its_headers(home: Path) -> None:
    words = ("vscode", "--http", "http://127.0.0.1:8000/mcp", "--header", "Authorization: Bearer x", "--json")
    (found,) = json.loads(connect(home, *words).stdout)["clients"]
    assert found["entry"] == {
        "type": "http",
        "url": "http://127.0.0.1:8000/mcp",
        "headers": {"Authorization": "Bearer x"},
    }
    done = connect(home, "claude-desktop", "--http", "http://127.0.0.1:8000/mcp", "--yes")
    assert done.returncode == 1
    assert "cannot connect to an address" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--http", "ftp://x"), "expected the URL of an MCP server"),
        (("--http", "http://h/mcp", "--header", "nonsense"), "expected 'Name: value'"),
        (("--name", "my skills\x1b"), "--name 'my skills\\x1b': expected letters, digits"),
        (("--header", "A: b"), "--header goes with --http"),
        (("--http", "http://h/mcp", "."), "leave them out"),
    ],
)
def test_options_that_make_no_sense_are_refused(home: Path, words: tuple[str, ...], told: str) -> None:
    done = connect(home, "cursor", *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert [*home.iterdir()] == []


def test_without_an_answer_nothing_is_written(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    done = connect(home, "cursor", skills)
    assert done.returncode == 1
    assert "nobody answers; --yes does not ask" in done.stdout
    assert [*home.iterdir()] == []


def test_an_address_that_does_not_answer_is_not_written(home: Path) -> None:
    done = connect(home, "cursor", "--http", "http://127.0.0.1:1/mcp", "--yes")
    assert done.returncode == 1
    assert "start the server first" in done.stdout
    assert [*home.iterdir()] == []


def test_links_have_the_entry_in_the_form_that_each_client_reads() -> None:
    known, address = known_clients(), HttpServer("http://h/mcp?a=b", {"Authorization": "Bearer a=b c"})
    program = LocalServer("/opt/my tools/skillserve", ("serve", "/a b"))

    def link(key: str, server: LocalServer | HttpServer) -> Any:
        found = deeplink(known[key], "my skills", entry_for(known[key], "my skills", server))
        return None if found is None else urlsplit(found)

    cursor = parse_qs(link("cursor", program).query)
    assert cursor["name"] == ["my skills"]
    entry = {"command": program.command, "args": [*program.args]}
    assert json.loads(base64.b64decode(cursor["config"][0])) == entry
    vscode = link("vscode", program)
    assert (vscode.scheme, vscode.path) == ("vscode", "mcp/install")
    assert json.loads(unquote(vscode.query)) == {"name": "my skills", "type": "stdio", **entry}
    goose = parse_qs(link("goose", address).query)
    assert (goose["type"], goose["url"]) == (["streamable_http"], [address.url])
    # Goose cuts a header at each `=` and then decodes its value.
    name, value = goose["header"][0].split("=")
    assert {name: unquote(value)} == dict(address.headers)
    # Of programs it accepts a few bare names.
    assert link("goose", program) is None
    assert link("zed", program) is None


@pytest.mark.parametrize("client", known_clients().values(), ids=lambda each: each.key)
def test_each_client_has_an_entry_without_placeholders(client: Any) -> None:
    local = entry_for(client, "skills", LocalServer("/bin/x", ("serve",)))
    remote = entry_for(client, "skills", HttpServer("http://h/mcp", {"A": "b"}))
    assert "/bin/x" in json.dumps(local)
    assert remote is None or "http://h/mcp" in json.dumps(remote)
    assert re.findall(r"\{\w+\}", json.dumps([local, remote])) == []
    assert client.file(Path("/home/x"), {"APPDATA": "C:/x"}) or client.project_file(Path("/work"))


def stubs_in(folder: Path) -> list[str]:
    return sorted(each.parent.name for each in folder.glob("*/SKILL.md"))


def test_codex_gets_stubs_and_waits_for_the_server(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    done = connect(home, "codex", skills, "--yes")
    assert done.returncode == 0, done.stderr
    entry = tomllib.loads((home / ".codex/config.toml").read_text(encoding="utf-8"))["mcp_servers"]["skills"]
    assert entry["args"][-4:] == [str(skills), "--keep-alive", "--bridge", "codex"]
    assert entry["required"] is True
    assert entry["startup_timeout_sec"] == 30
    assert stubs_in(home / ".codex/skills") == ["one"]
    assert "nothing to change" in connect(home, "codex", skills, "--yes").stdout
    assert connect(home, "codex", "--remove", "--yes").returncode == 0
    assert [*home.iterdir()] == []


def test_the_user_decides_on_stubs(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    connect(home, "codex", skills, "--no-bridge", "--yes")
    assert "--bridge" not in (home / ".codex/config.toml").read_text(encoding="utf-8")
    assert stubs_in(home / ".codex/skills") == []
    connect(home, "claude-code", skills, "--bridge", "--name", "team", "--yes")
    entry = json.loads((home / ".claude.json").read_text(encoding="utf-8"))["mcpServers"]["team"]
    assert entry["args"][-4:] == ["--bridge", "claude-code", "--server-name", "team"]
    assert stubs_in(home / ".claude/skills") == ["one"]
    connect(home, "claude-code", "--name", "team", "--remove", "--yes")
    assert stubs_in(home / ".claude/skills") == []


def test_an_edited_stub_stays_when_a_client_is_disconnected(home: Path, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    connect(home, "codex", skills, "--yes")
    stub = home / ".codex/skills/one/SKILL.md"
    stub.write_text(stub.read_text(encoding="utf-8") + "Mine.\n", encoding="utf-8")
    done = connect(home, "codex", "--remove", "--yes")
    assert done.returncode == 1
    assert "one is left as it is: this stub was edited" in done.stdout
    assert stub.exists()


@pytest.mark.parametrize("words", [("--project",), ("--http", "http://127.0.0.1:1/mcp")])
def test_stubs_are_for_servers_that_start_here(home: Path, words: tuple[str, ...]) -> None:
    done = connect(home, "codex", "--bridge", *words, "--print")
    assert done.returncode == 2
    assert "--bridge is for" in done.stderr
