"""Run `skillserve eval` with a real agent and a scripted model, in namespaces of their own.

Usage: eval_inside.py AGENT folder|server|baseline|cheat|cheat-open FOLDER. The results are left in FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from conformance.clients.endpoint import endpoint, serving
from conformance.clients.eval_script import OLD_DATUM, CheatingModel, EvalModel, write_skill
from conformance.clients.inside import bring_loopback_up
from conformance.clients.recording import Recorder
from conformance.clients.trigger_agents import TRIGGER_AGENTS, TriggerAgent, environment_of

BASELINE = "baseline"
CHEAT = "cheat"
"""The model looks for the evals on the whole disk, and copies the answer."""

CHEAT_OPEN = "cheat-open"
"""The same without isolation."""


async def _main(name: str, mode: str, root: Path) -> None:
    agent = TRIGGER_AGENTS[name]
    skill = write_skill(root)
    async with serving(endpoint(_model(agent, mode), Recorder(root / "requests.jsonl"))) as address:
        home = root / "agent-home"
        home.mkdir()
        agent.write_home(home, address)
        words = [sys.executable, "-m", "server", "eval", str(skill), "--agent", name, "--agent-home", str(home)]
        words += ["--jobs", "2", "--json", "--timeout", "60", "--workspace", str(root / "workspace")]
        words += ["--agent-model", agent.model] if agent.model else []
        if mode == BASELINE:
            words += ["--baseline", str(write_skill(root / "old", OLD_DATUM))]
        elif mode not in {CHEAT, CHEAT_OPEN}:
            words += ["--via", mode]
        words += ["--no-isolation"] if mode == CHEAT_OPEN else []
        with (root / "results.json").open("wb") as out, (root / "log.txt").open("wb") as log:
            environment = environment_of(agent, address, root)
            done = await anyio.run_process(words, check=False, stdout=out, stderr=log, cwd=root, env=environment)
    (root / "exit-code").write_text(str(done.returncode), encoding="utf-8")


def _model(agent: TriggerAgent, mode: str) -> EvalModel | CheatingModel:
    if mode in {CHEAT, CHEAT_OPEN}:
        return CheatingModel(agent)
    return EvalModel(agent, via_server=mode == "server")


if __name__ == "__main__":
    bring_loopback_up()
    anyio.run(_main, sys.argv[1], sys.argv[2], Path(sys.argv[3]))
