"""The command `plugin`, and servers that run meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp.client.stdio import StdioServerParameters

from tests.capabilities.remote.helpers import skillserve
from tests.capabilities.remote.hostile import Hostile, Raw, running
from tests.capabilities.remote.plugins.helpers import content, versioned
from tests.server.cli.test_cli import DIAGNOSTIC
from tests.server.sessions import REPOSITORY, Era, open_session, server_environment

TEXT = {"type": ["string", "null"]}
RESULT = {
    "type": "object",
    "required": ["plugins", "dry_run"],
    "properties": {
        "dry_run": {"type": "boolean"},
        "plugins": {
            "items": {
                "required": ["name", "state", "server", "folder", "skills", "diagnostics"],
                "properties": {
                    "state": {"enum": ["installed", "updated", "unchanged", "removed", "refused"]},
                    "server": TEXT,
                    "folder": TEXT,
                    "diagnostics": {"type": "array", "items": DIAGNOSTIC},
                    "skills": {
                        "items": {
                            "required": ["uri", "name", "folder", "state", "version", "previous_version"],
                            "properties": {
                                "state": {"enum": ["added", "updated", "unchanged", "removed"]},
                                "version": TEXT,
                                "previous_version": TEXT,
                            },
                        }
                    },
                },
            }
        },
    },
}


def places(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "USERPROFILE": str(home), "XDG_CONFIG_HOME": str(home / ".config")}


async def plugin(home: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return await skillserve("plugin", *arguments, **places(home))


async def test_the_commands_print_what_they_did(tmp_path: Path) -> None:
    app = Hostile([versioned("one", "1.0.0"), versioned("two", "1.0.0")])
    async with running(app) as url:
        done = await plugin(tmp_path, "install", "acme", url)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode().splitlines() == [
            f"installed acme ({url})",
            "  added one 1.0.0",
            "  added two 1.0.0",
        ]
        app.skills = [versioned("one", "1.1.0")]
        lines = [f"updated acme ({url})", "  updated one 1.0.0 → 1.1.0", "  removed two 1.0.0"]
        done = await plugin(tmp_path, "update", "--dry-run")
        assert done.stdout.decode().splitlines() == [f"would be {lines[0]}", *lines[1:]]
        done = await plugin(tmp_path, "update", "--json")
        result = json.loads(done.stdout)
        Draft202012Validator(RESULT).validate(result)
        assert [(each["name"], each["state"], each["version"]) for each in result["plugins"][0]["skills"]] == [
            ("one", "updated", "1.1.0"),
            ("two", "removed", None),
        ]
    done = await plugin(tmp_path, "list")
    first, second = done.stdout.decode().splitlines()
    assert first.startswith(f"acme ({url}), updated 20")
    assert second == "  one 1.1.0"
    (listed,) = json.loads((await plugin(tmp_path, "list", "--json")).stdout)["plugins"]
    assert (listed["name"], listed["edited"], listed["problem"]) == ("acme", [], None)
    done = await plugin(tmp_path, "remove", "acme")
    assert done.stdout.decode().splitlines() == [f"removed acme ({url})", "  removed one 1.1.0"]
    assert content(tmp_path / ".jdai" / "plugins") == {}


async def test_exit_codes_distinguish_failure_from_wrong_use(tmp_path: Path) -> None:
    for arguments, code, said in (
        (("list",), 0, ""),
        (("update",), 0, "no plugin is installed"),
        (("update", "acme"), 1, "there is no plugin 'acme'"),
        (("remove", "acme", "--json"), 1, "unknown_plugin"),
        (("install", "../acme", "http://127.0.0.1:9/mcp"), 2, "cannot be the name of a plugin"),
        (("install", "acme", "skills/"), 2, "expected the URL of an MCP server"),
        (("install", "acme", "http://127.0.0.1:9/mcp"), 1, "unreachable"),
        (("update", "--header", "X-Key: x"), 2, "need exactly one NAME"),
        (("update", "a", "b", "--address", "http://127.0.0.1:9/mcp"), 2, "need exactly one NAME"),
    ):
        done = await plugin(tmp_path, *arguments)
        assert done.returncode == code, (arguments, done.stderr)
        assert said in (done.stdout + done.stderr).decode()
        assert b"Traceback" not in done.stderr


async def test_no_control_character_of_a_server_reaches_the_terminal(tmp_path: Path) -> None:
    app = Hostile([versioned("one", "\x1b]0;owned\x07"), versioned("two", "\u202e" * 5000)])
    async with running(app) as url:
        for arguments in (("install", "acme", url), ("list",), ("update", "--json"), ("list", "--json")):
            done = await plugin(tmp_path, *arguments)
            assert done.returncode == 0, done.stdout
            assert not {"\x1b", "\x07", "\u202e"} & set((done.stdout + done.stderr).decode())
            assert len(done.stdout) < 5000


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_running_server_follows_installation_update_and_removal(tmp_path: Path, era: Era) -> None:
    app = Hostile([versioned("one", "1.0.0")])
    settings = server_environment(
        **places(tmp_path), SKILLSERVE_DISABLED="source:bundled", SKILLSERVE_WATCH_POLL_MS="100"
    )
    (tmp_path / "work").mkdir()
    command = [sys.executable, "-m", "server", "serve"]
    parameters = StdioServerParameters(command=command[0], args=command[1:], cwd=tmp_path / "work", env=settings)
    async with running(app) as url, open_session(parameters, era) as session:
        assert await session.enum() == []
        assert (await plugin(tmp_path, "install", "acme", url)).returncode == 0
        await session.until_enum(["one"])
        assert "tools" in session.told
        assert "Do it." in await session.activate("one")
        app.skills = [versioned("one", "2.0.0"), versioned("two", "1.0.0")]
        assert (await plugin(tmp_path, "update")).returncode == 0
        await session.until_enum(["one", "two"])
        assert "Do it." in await session.activate("two")
        assert (await plugin(tmp_path, "remove", "acme")).returncode == 0
        await session.until_enum([])


def test_other_commands_start_without_plugins() -> None:
    code = (
        "import sys, server.cli.app;"
        "loaded = [name for name in sys.modules if name.startswith(('server.capabilities.remote.plugins.', 'mcp'))];"
        "sys.exit(f'loaded: {loaded}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("sent", ["SIGINT", "SIGKILL"])
async def test_an_interrupted_installation_leaves_nothing_that_the_next_command_does_not_remove(
    tmp_path: Path, sent: str
) -> None:
    app, reading, root = Hostile([versioned("one", "1.0.0")]), anyio.Event(), tmp_path / ".jdai" / "plugins"

    def never_ends(_: object) -> Raw:
        reading.set()
        return Raw(b" ", endless=True)

    async with running(app) as url:
        app.answers["resources/read"] = never_ends
        command = [sys.executable, "-m", "server", "plugin", "install", "acme", url]
        environment = server_environment(**places(tmp_path))
        with anyio.fail_after(60):
            async with await anyio.open_process(command, cwd=REPOSITORY, env=environment) as process:
                await reading.wait()
                process.send_signal(signal.Signals[sent])
                assert await process.wait() != 0
        assert not (root / "acme").exists()
        if sent == "SIGINT":
            assert [path.name for path in root.iterdir()] == [".skillserve-plugins.lock"]
        del app.answers["resources/read"]
        assert (await plugin(tmp_path, "install", "acme", url)).returncode == 0
    assert {path.name for path in root.iterdir()} == {".skillserve-plugins.lock", "acme"}
