"""Run `skillserve triggers` with a real agent and a scripted model, in namespaces of their own.

Usage: trigger_inside.py AGENT folder|server|optimize FOLDER. The results are left in FOLDER.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from conformance.clients.endpoint import MODEL, endpoint, serving
from conformance.clients.inside import bring_loopback_up
from conformance.clients.recording import Recorder
from conformance.clients.trigger_agents import TRIGGER_AGENTS, environment_of
from conformance.clients.trigger_script import TriggerModel, write_skill

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIMIZE = "optimize"

KILLED_AFTER = 6
"""Records in the journal after which the process that optimizes is killed."""


async def _main(name: str, mode: str, root: Path) -> None:
    agent = TRIGGER_AGENTS[name]
    model = TriggerModel(agent.load, via_server=mode == "server")
    skill = write_skill(root, for_verdict=mode == OPTIMIZE)
    async with serving(endpoint(model, Recorder(root / "requests.jsonl"))) as address:
        home = root / "agent-home"
        home.mkdir()
        agent.write_home(home, address)
        words = [sys.executable, "-m", "server", "triggers", str(skill), "--agent", name, "--agent-home", str(home)]
        words += ["--jobs", "2", "--json", "--workspace", str(root / "workspace")]
        words += ["--agent-model", agent.model] if agent.model else []
        if mode == OPTIMIZE:
            words += ["--optimize", "--apply", "--model", f"{address}/v1#{MODEL}"]
        else:
            words += ["--via", mode, "--runs", "1"]
        environment = environment_of(agent, address, root)
        if mode == OPTIMIZE:
            await _start_and_kill(words, environment, root)
        with (root / "results.json").open("wb") as out, (root / "log.txt").open("wb") as log:
            done = await anyio.run_process(words, check=False, stdout=out, stderr=log, cwd=root, env=environment)
    (root / "exit-code").write_text(str(done.returncode), encoding="utf-8")


async def _start_and_kill(words: list[str], environment: Mapping[str, str], root: Path) -> None:
    """Start the optimization and kill it as `kill -9` does, once some runs are done."""
    journal = root / "workspace/triggers-1/runs.jsonl"
    with (root / "killed.txt").open("wb") as log:
        process = await anyio.open_process(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=root, env=environment
        )
        while process.returncode is None and _lines(journal) < KILLED_AFTER:  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.02)
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()
    (root / "killed-after").write_text(str(_lines(journal)), encoding="utf-8")


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


if __name__ == "__main__":
    bring_loopback_up()
    anyio.run(_main, sys.argv[1], sys.argv[2], Path(sys.argv[3]))
