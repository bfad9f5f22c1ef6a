"""Type a slash command into one client; `sandbox.py` starts this module in namespaces of its own.

Usage: slash_inside.py CLIENT WAY FOLDER. The recording of the model's requests is left in FOLDER, and the screens.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from conformance.clients.all_clients import CLIENTS
from conformance.clients.client import Command, Run, write_used_home
from conformance.clients.endpoint import endpoint, serving
from conformance.clients.inside import bring_loopback_up, run_client
from conformance.clients.recording import Recorder
from conformance.clients.scripted_model import ScriptedModel
from conformance.clients.slash_ways import BODY, NAME, NATIVE, NATIVE_FOLDERS, SLASHES, WORDS, Way
from conformance.clients.terminal import Terminal

if TYPE_CHECKING:
    from conformance.clients.dialects.messages import Request
    from conformance.clients.scripted_model import Play
    from conformance.clients.slash_ways import Slash

PATIENCE = 90.0
"""Seconds; a client that takes longer hangs."""

STARTING = 8.0
"""Seconds without a change on the screen."""

MOST_ENTERS = 4
"""A menu of commands may take the first ones."""


def _write_skill(folder: Path, body: str) -> None:
    path = folder / NAME / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {NAME}\ndescription: Deploys an app to an environment.\n---\n\n{body}\n", "utf-8")


def _in_terminal(client: str, run: Run, command: Command, way: Way) -> None:
    """Start the client in a terminal, type, and press Enter until the model is asked."""
    slash = SLASHES[client]
    words = slash.interactive(command.words)
    environment = {**run.environment(), **command.environment, "COLORTERM": "truecolor"}
    for name in ("CI", "FORCE_NO_TTY"):
        environment.pop(name, None)
    terminal = Terminal(run.root, words, environment, run.work)
    try:
        terminal.wait(*slash.ready)
        # Clients take keys, and read the lists of servers, a while after they show where one types.
        terminal.settle(STARTING)
        if slash.declined and any(each in terminal.screen() for each in slash.declined):
            terminal.press("Down", "Enter")
            terminal.settle()
        terminal.await_keys()
        if slash.reload and way in {Way.RELOADED, Way.BESIDE_NATIVE}:
            terminal.type(slash.reload)
            terminal.press("Enter")
            terminal.settle()
        _type(terminal, slash, way)
        before = _lines(run.recording)
        for _ in range(MOST_ENTERS):
            _keep_screen(run, terminal)
            if _lines(run.recording) > before:
                break
            terminal.press("Enter")
            terminal.settle()
        terminal.settle()
    finally:
        _keep_screen(run, terminal)
        terminal.close()


def _type(terminal: Terminal, slash: Slash, way: Way) -> None:
    """Type the command, or the mention, and the words; the last Enter is left out."""
    if way is Way.MENTION and slash.pick:
        terminal.type(slash.mention)
        terminal.press(slash.pick)
        terminal.settle()
        terminal.type(" ".join(WORDS))
    elif slash.asks:
        terminal.type(slash.command)
        terminal.press("Enter")
        terminal.wait(slash.asks)
        terminal.type(" ".join(WORDS))
    else:
        terminal.type(slash.typed(way))


def _keep_screen(run: Run, terminal: Terminal) -> None:
    with (run.root / "screens.txt").open("a", encoding="utf-8") as file:
        file.write(f"{terminal.screen().rstrip()}\n{'=' * 40}\n")


def _nothing(_first: Request) -> Play:
    """Call no tool."""
    yield from ()


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n") if path.exists() else 0


async def _main(client: str, way: Way, root: Path) -> None:
    slash, recording = SLASHES[client], Run(root, "").recording
    _write_skill(Run(root, "").skills, BODY)
    model = ScriptedModel(_nothing)
    async with serving(endpoint(model, Recorder(recording))) as address:
        run = Run(root, address, slash.typed(way))
        write_used_home(run.home, run.work)
        if way is Way.BESIDE_NATIVE:
            _write_skill(run.home / NATIVE_FOLDERS[client], NATIVE)
        command = CLIENTS[client].prepare(run)
        if way is not Way.HEADLESS:
            with anyio.move_on_after(PATIENCE):
                await anyio.to_thread.run_sync(_in_terminal, client, run, command, way, abandon_on_cancel=True)
            return
        await run_client(
            slash.headless(command.words), run, {**run.environment(), **command.environment}, patience=PATIENCE
        )


if __name__ == "__main__":
    bring_loopback_up()
    anyio.run(_main, sys.argv[1], Way(sys.argv[2]), Path(sys.argv[3]))
