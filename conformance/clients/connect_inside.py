"""Connect a client with `skillserve connect`, let it load a skill, and disconnect it; in namespaces of their own.

Usage: connect_inside.py CLIENT user|project|http FOLDER. The results are left in FOLDER.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import yaml

from conformance.clients.all_clients import CLIENTS
from conformance.clients.client import Command, Run, write_json
from conformance.clients.connect import ADDRESS, CONNECTED, PROJECT
from conformance.clients.dialects.messages import Call
from conformance.clients.endpoint import endpoint, serving
from conformance.clients.inside import bring_loopback_up
from conformance.clients.login_script import write_skill
from conformance.clients.recording import Recorder
from conformance.clients.scripted_model import ScriptedModel
from conformance.processes import CheckError
from server.capabilities.connect.clients import HttpServer, known_clients, unsupported_variables
from server.capabilities.connect.documents import read_document

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from conformance.clients.dialects.messages import Request
    from conformance.clients.scripted_model import Play

PORT = 8472
URL = f"http://127.0.0.1:{PORT}/mcp"
SECONDS = 60.0
SKILLSERVE = str(Path(sys.executable).with_name("skillserve"))


@dataclass(frozen=True, slots=True)
class Session:
    """A client with a home of its own; `token` is that of the server, which the client has in its environment."""

    run: Run
    name: str
    mode: str
    command: Command
    token: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The variables of each process."""
        return {**self.run.environment(), **self.command.environment, "SKILLS_TOKEN": self.token}

    async def say(self, words: Sequence[str]) -> tuple[int, str]:
        """Run a command to its end; return its exit code and what it printed."""
        with anyio.move_on_after(SECONDS):
            done = await anyio.run_process(
                list(words),
                check=False,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                cwd=self.run.work,
                env=self.environment,
            )
            return done.returncode, done.stdout.decode(errors="replace")
        return -1, f"no end within {SECONDS:.0f} s"

    async def connect(self, *more: str) -> dict[str, Any]:
        """Run `skillserve connect` for the client."""
        project = ["--project"] if self.mode == PROJECT else []
        code, said = await self.say([SKILLSERVE, "connect", CONNECTED[self.name].key, *project, "--yes", *more])
        return {"code": code, "said": said}

    def files(self) -> dict[str, str]:
        """Return the content of each file in the home and the project, and the folders without any."""
        found = (each for folder in (self.run.home, self.run.work) for each in folder.rglob("*"))
        return {
            str(each.relative_to(self.run.root)): each.read_bytes().decode(errors="replace") if each.is_file() else "/"
            for each in found
            if not each.is_symlink() and not (each.is_dir() and any(each.iterdir()))
        }


def _prepared(name: str, run: Run) -> Command:
    """Return the command of a client that has a model and no server yet."""
    command = CLIENTS[name].prepare(run)
    words = list(command.words)
    if name == "claude":
        at = words.index("--mcp-config")
        del words[at : at + 3]
        # A person approves the servers of a project once.
        write_json(run.home / ".claude/settings.json", {"enableAllProjectMcpServers": True})
    if name == "copilot":
        # A person trusts the folder of a project once.
        write_json(run.home / ".copilot/config.json", {"trusted_folders": [str(run.work)]})
    if name == "continue":
        at = words.index("--config")
        path = Path(words[at + 1])
        del words[at : at + 2]
        # As people write it: block style, which a server can be added to.
        settings = json.loads(path.read_text(encoding="utf-8"))
        del settings["mcpServers"]
        (run.home / ".continue").mkdir()
        (run.home / ".continue/config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    if name == "opencode":
        (run.home / ".config/opencode").mkdir(parents=True)
        (run.work / "opencode.json").rename(run.home / ".config/opencode/opencode.json")
    if name == "codex":
        # Only servers of trusted projects are started.
        file = run.home / ".codex/config.toml"
        trust = f'\n[projects."{run.work}"]\ntrust_level = "trusted"\n'
        file.write_text(file.read_text(encoding="utf-8") + trust, encoding="utf-8")
    return replace(command, words=words)


@asynccontextmanager
async def _served(session: Session) -> AsyncGenerator[str]:
    """Serve the skill to those who have a token; yields the token."""
    environment = {**session.environment, "SKILLSERVE_LOGIN_TOKENS": "true", "HOME": str(session.run.root / "server")}
    made = await anyio.run_process([SKILLSERVE, "token", "add", "anna"], env=environment)
    words = [SKILLSERVE, "serve", str(session.run.skills), "--transport", "http", "--port", str(PORT)]
    with (session.run.root / "server.log").open("wb") as log:
        process = await anyio.open_process(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        async with process:
            try:
                await _wait_until_reachable()
                yield made.stdout.decode().split()[0]
            finally:
                process.terminate()


async def _wait_until_reachable() -> None:
    with anyio.fail_after(SECONDS):
        while True:
            try:
                async with await anyio.connect_tcp("127.0.0.1", PORT):
                    return
            except OSError:
                await anyio.sleep(0.1)


async def _play(session: Session, target: Sequence[str]) -> None:
    """Connect, disconnect, connect again, let the client load the skill, and disconnect it."""
    # What the preparation has written of a server goes first.
    await session.connect("--remove")
    await replace(session, mode="user").connect("--remove")
    before = session.files()
    connected = await session.connect(*target)
    await session.connect("--remove")
    at_once = session.files()
    await session.connect(*target)
    words = CONNECTED[session.name].lists
    listed = (await session.say([session.command.words[0], *words]))[1] if words else ""
    said = (await session.say(session.command.words))[1]
    used = session.files()
    removed = await session.connect("--remove")
    after = session.files()
    results = {
        "connected": connected,
        "removed": removed,
        "before": before,
        "at_once": at_once,
        "listed": listed,
        "session": said,
        "left": [name for name in after if name.endswith(".before-skillserve")] + _with_server(session, after),
        "lost": _lost(session, used, after),
    }
    (session.run.root / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


def _file_of(session: Session) -> str:
    client = known_clients()[CONNECTED[session.name].key]
    environment = {"HOME": str(session.run.home)}
    file = (
        client.project_file(session.run.work) if session.mode == PROJECT else client.file(session.run.home, environment)
    )
    if file is None:
        raise CheckError(f"{client.title} has no such file")
    return str(file.relative_to(session.run.root))


def _with_server(session: Session, after: Mapping[str, str]) -> list[str]:
    name = _file_of(session)
    return [name] if any(each in after.get(name, "") for each in (SKILLSERVE, URL)) else []


def _lost(session: Session, used: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the top keys of the client's file that were there while it was used, and that a removal has taken."""
    client, name = known_clients()[CONNECTED[session.name].key], _file_of(session)
    there, here = (read_document(each.get(name, ""), client.format) for each in (used, after))
    return [key for key, value in there.items() if key != client.path[0] and here.get(key) != value]


def _greet(_: Request) -> Play:
    yield Call("activate_skill", {"name": "greeting"})


async def _main(name: str, mode: str, root: Path) -> None:
    model = endpoint(ScriptedModel(_greet), Recorder(root / "requests.jsonl"))
    async with serving(model) as address:
        run = Run(root, address, "Greet me.")
        write_skill(run.skills)
        session = Session(run, name, mode, _prepared(name, run))
        if mode != ADDRESS:
            await _play(session, [str(run.skills)])
            return
        async with _served(session) as token:
            session = replace(session, token=token)
            await _play(session, ["--http", URL, "--header", _header_of(session)])


def _header_of(session: Session) -> str:
    """Return the header: its token is in a variable if the client reads it there."""
    value = "Bearer ${SKILLS_TOKEN}"
    server = HttpServer(URL, {"Authorization": value})
    reads = not unsupported_variables(known_clients()[CONNECTED[session.name].key], server)
    return f"Authorization: {value if reads else f'Bearer {session.token}'}"


if __name__ == "__main__":
    bring_loopback_up()
    os.umask(0o022)
    anyio.run(_main, sys.argv[1], sys.argv[2], Path(sys.argv[3]))
