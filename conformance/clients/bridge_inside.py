"""Run one client with skills of its own, served ones, both by stubs, or none; in namespaces of its own.

Usage: bridge_inside.py CLIENT MODE-SIZE FOLDER. The recording and the client's output are left in FOLDER.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from conformance.clients.all_clients import CLIENTS
from conformance.clients.catalogs import LOADED, write_catalog
from conformance.clients.client import KEY, Run, write_json
from conformance.clients.dialects.messages import Call, ToolKind
from conformance.clients.endpoint import endpoint, serving
from conformance.clients.inside import bring_loopback_up, run_client
from conformance.clients.recording import Recorder
from conformance.clients.scripted_model import Reply, ScriptedModel
from conformance.processes import REPOSITORY
from server.capabilities.bridge.clients import bridged_clients

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.clients.dialects.messages import Request
    from conformance.clients.scripted_model import AnsweringModel, Play

__all__ = ["BRIDGED", "Mode"]

BRIDGED = {
    "claude": "claude-code",
    "codex": "codex",
    "codex-search": "codex",
    "codex-code": "codex",
    "gemini": "gemini-cli",
    "qwen": "qwen-code",
    "opencode": "opencode",
    "copilot": "copilot-cli",
}
"""The keys of `skillserve bridge`, by the names of `agents.py`."""

NATIVE_TOOLS = ("Skill", "skill", "activate_skill")
SHELLS = ("exec_command", "shell", "shell_command")


class Mode:
    """What a run has: no skills, skills in the client's folder, the server, or the server and its stubs."""

    NONE, NATIVE, SERVED, BRIDGE = "none", "native", "served", "bridge"
    ALL = (NONE, NATIVE, SERVED, BRIDGE)


@dataclass(frozen=True, slots=True)
class BridgedRun(Run):
    """A run whose server keeps stubs for a client, if `key` names one."""

    key: str = ""

    @property
    def server(self) -> list[str]:
        """The command of the MCP server."""
        return [*Run(self.root, self.model).server, *(["--bridge", self.key] if self.key else [])]


@dataclass(slots=True)
class OpeningModel:
    """Loads a skill in the client's own way at its first request; the script goes on from there."""

    script: AnsweringModel
    opens: bool

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        call = native_call(request) if self.opens and request.tools else None
        if call is None:
            return self.script.answer(request)
        self.opens = False
        return Reply([call], call)


def native_call(request: Request) -> Call | None:
    """Return the call by which the client itself loads the skill LOADED, None if it has no way to do so."""
    by_name = {tool.name: tool for tool in request.tools if not tool.deferred}
    for name in NATIVE_TOOLS:
        if tool := by_name.get(name):
            key = next(iter(tool.schema.get("required") or tool.schema["properties"]))
            return Call(name, {key: LOADED})
    # Codex abbreviates the folder in its list, so that a model has to put the path together.
    words = f"cat ~/.codex/skills/{LOADED}/SKILL.md"
    if (script := by_name.get("exec")) and script.kind is ToolKind.SCRIPT:
        return Call("exec", f"text(await tools.exec_command({json.dumps({'cmd': words})}))", script.namespace)
    shell = next((by_name[name] for name in SHELLS if name in by_name), None)
    if shell is None:
        return None
    takes_words = shell.schema.get("properties", {}).get("command", {}).get("type") == "array"
    key = "cmd" if "cmd" in shell.schema.get("properties", {}) else "command"
    return Call(shell.name, {key: ["sh", "-c", words] if takes_words else words}, shell.namespace)


def _activate(_: Request) -> Play:
    yield Call("activate_skill", {"name": LOADED})


def without_server(name: str, run: Run, words: Sequence[str]) -> list[str]:
    """Remove the server from a client's configuration; return its command line."""
    found = list(words)
    if name == "claude":
        at = found.index("--mcp-config")
        write_json(Path(found[at + 1]), {"mcpServers": {}})
    elif name.startswith("codex"):
        file = run.home / ".codex/config.toml"
        file.write_text(file.read_text(encoding="utf-8").partition("[mcp_servers.")[0], encoding="utf-8")
    else:
        files = {
            "gemini": (run.home / ".gemini/settings.json", "mcpServers"),
            "qwen": (run.home / ".qwen/settings.json", "mcpServers"),
            "opencode": (run.work / "opencode.json", "mcp"),
            "copilot": (run.home / ".copilot/mcp-config.json", "mcpServers"),
        }
        file, key = files[name]
        write_json(file, {**json.loads(file.read_text(encoding="utf-8")), key: {}})
    return found


async def _main(name: str, scenario: str, root: Path) -> None:
    mode, _, size = scenario.partition("-")
    empty = Run(root, "")
    write_catalog(empty.skills, int(size))
    opens = mode in {Mode.NATIVE, Mode.BRIDGE}
    model = OpeningModel(ScriptedModel(_activate), opens)
    async with serving(endpoint(model, Recorder(empty.recording))) as address:
        client = bridged_clients()[BRIDGED[name]]
        run = BridgedRun(root, address, key=client.key if mode == Mode.BRIDGE else "")
        command = CLIENTS[name].prepare(run)
        words = list(command.words)
        environment = {**run.environment(), **command.environment, "MODEL_KEY": KEY}
        if mode in {Mode.NONE, Mode.NATIVE}:
            words = without_server(name, run, words)
        if mode == Mode.NATIVE:
            write_catalog(client.place(run.home, environment), int(size))
        if mode == Mode.BRIDGE:
            bridge = [sys.executable, "-m", "server", "bridge", client.key, str(run.skills)]
            await anyio.run_process(bridge, env={**environment, "PYTHONPATH": str(REPOSITORY)}, cwd=run.work)
        await run_client(words, run, environment)


if __name__ == "__main__":
    bring_loopback_up()
    anyio.run(_main, sys.argv[1], sys.argv[2], Path(sys.argv[3]))
