"""The commands `verify` and `fetch`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from server.wire.address import Address
from tests.capabilities.remote.helpers import ANSWER, skillserve
from tests.capabilities.remote.hostile import Hostile, running, serve_skill
from tests.capabilities.remote.tampering import raises
from tests.conftest import MakeSkill
from tests.server.sessions import REPOSITORY


async def test_verify_prints_a_line_for_each_skill_a_summary_and_the_documented_object() -> None:
    app = Hostile([serve_skill("one", {"a.md": b"a"}), serve_skill("two")])
    app.skills[1].entry["frontmatter"]["license"] = "MIT"
    async with running(app) as url:
        done = await skillserve("verify", url)
        assert done.returncode == 1
        lines = done.stdout.decode().splitlines()
        size = len(app.one.contents[app.one.uri]) + 1
        assert lines[0] == f"ok one (2 files, {size} bytes)"
        assert lines[1] == "failed two"
        assert lines[2].startswith("  skill://two/SKILL.md: error[frontmatter_mismatch]: ")
        assert lines[3] == f"2 skills of {url}: 1 verified, 1 failed"
        assert done.stderr == b""
        done = await skillserve("verify", url, "one", "--json")
        assert done.returncode == 0
        result = json.loads(done.stdout)
        Draft202012Validator(ANSWER).validate(result)
        assert result["server"] == url
        assert result["protocol"] == "2026-07-28"
        assert result["skills"] == [
            {"uri": app.one.uri, "name": "one", "verified": True, "files": 2, "bytes": size, "diagnostics": []}
        ]


async def test_no_control_character_of_a_server_reaches_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\u202e\x9b2J\n"
    one, two, three = serve_skill("one"), serve_skill("two"), serve_skill("three")
    three.entry["frontmatter"][evil * 1000] = evil * 1000
    one.entry["frontmatter"]["name"] = two.entry["uri"] = evil * 100_000
    app = Hostile([one, two, three, serve_skill("four")], {"resources/read": raises(-32603, evil)})
    async with running(app) as url:
        for flags in ((), ("--json",)):
            done = await skillserve("verify", url, *flags)
            assert done.returncode == 1
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set((done.stdout + done.stderr).decode())
            assert b"Traceback" not in done.stderr
            assert len(done.stdout + done.stderr) < 20_000
        app.answers["skills/list"] = raises(-32603, evil)
        done = await skillserve("verify", url)
    assert done.stderr.decode().isprintable() or done.stderr.count(b"\n") == 1
    assert b"\x1b" not in done.stderr


async def test_exit_codes_distinguish_failure_from_wrong_use(tmp_path: Path) -> None:
    app = Hostile([serve_skill("one")])
    async with running(app) as url:
        for arguments, code in (
            (("verify", url), 0),
            (("verify", url, "two"), 1),
            (("verify", "nonsense"), 2),
            (("verify", url, "--header", "nonsense"), 2),
            (("fetch", url, "two", "--to", tmp_path / "none"), 1),
        ):
            done = await skillserve(*arguments)
            assert done.returncode == code, (arguments, done.stderr)
            assert b"Traceback" not in done.stderr
    assert not (tmp_path / "none").exists()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        done = await skillserve("verify", f"http://127.0.0.1:{unused.getsockname()[1]}/mcp", "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    Draft202012Validator(ANSWER).validate(result)
    assert (result["protocol"], result["skills"]) == (None, [])
    assert result["diagnostics"][0]["code"] == "unreachable"


def test_other_commands_start_without_the_client(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    code = (
        "import sys; from server.cli.app import app; sys.argv = ['skillserve', 'status', sys.argv[1]];"
        "app(standalone_mode=False);"
        "heavy = {'mcp', 'mcp.client', 'httpx2', *(f'server.capabilities.remote.{x}' for x in ('client', 'address'))};"
        "loaded = heavy & set(sys.modules);"
        "sys.exit(f'loaded: {sorted(loaded)}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(skills)], cwd=REPOSITORY, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"one" in done.stdout


async def test_the_environments_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    assert Address.parse("http://example.com/mcp").proxy is None
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:3128")
    monkeypatch.setenv("no_proxy", "localhost")
    assert Address.parse("http://example.com/mcp").proxy == "http://127.0.0.1:3128"
    assert Address.parse("https://example.com/mcp").proxy is None
    assert Address.parse("http://localhost/mcp").proxy is None
