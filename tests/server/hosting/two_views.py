"""One library with two views: skills of two teams, and a stand-in rule that tells the teams by the client's name.

What only one team has is full of a word that nothing else has: `quokka` for the red team, `wombat` for the blue one.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext

from server.capabilities.runs.supervisor import RunSupervisor
from server.config.machine import current_environment
from server.config.settings.server import Transport
from server.config.settings.tools import OptionalTool
from server.hosting.host import Host
from server.hosting.views import ViewName, ViewRule
from server.protocol.server import SkillServer
from server.requests import Records
from server.transport.http import HttpServer
from server.transport.listening import listen
from server.transport.stdio import serve_stdio
from skills_core import Library, Skill, explicit_sources
from skills_core.live.watch_options import WatchMode
from tests.conftest import write_skill
from tests.server.settings import make_settings

WORDS = {"red": "quokka", "blue": "wombat"}
"""The word of each team, which no answer to the other team may contain."""

SWITCHED_ON: dict[str, Any] = {
    "tools": (
        OptionalTool("skills_status"),
        OptionalTool("reload_skills"),
        OptionalTool("check_tool_call"),
        OptionalTool("skill_context"),
        OptionalTool("run_skill_script"),
        OptionalTool("skill_history"),
        OptionalTool("rollback_skill"),
    ),
    "skill_tools": tuple(f"{word}-main/*" for word in WORDS.values()),
}

MAIN = """tags: [WORD-tag]
argument-hint: "[WORD-a|WORD-b]"
triggers: [WORD-trigger]
danger_patterns: [WORD-danger]
confirm_patterns: [WORD-confirm]
metadata: {WORD-key: WORD-value}
tools:
- name: WORD-tool
  description: The WORD-tool does things.
  script: WORD.py
  parameters: {type: object, properties: {WORD-argument: {type: string, description: A WORD-thing.}}}
"""


def _name_of(ctx: ServerRequestContext[Any, Any]) -> str:
    if ctx.method == "initialize":
        return str((ctx.params or {})["clientInfo"]["name"])
    known = ctx.session.client_params
    return known.client_info.name if known is not None else ""


def view_of(ctx: ServerRequestContext[Any, Any]) -> ViewName:
    return frozenset({_name_of(ctx).partition("-")[0]} & WORDS.keys())


def shows(view: ViewName, skill: Skill) -> bool:
    """Show what lies in a folder of a team to the team alone."""
    return WORDS.keys() & set(skill.content.place.split("/")) <= view


RULE = ViewRule(view_of, shows)


def write_skills(root: Path) -> tuple[Path, Path]:
    """Write two sources of skills; both teams have a skill that is called the same."""
    high, low = root / "high", root / "low"
    write_skill(high / "common", "plain", "Does plain things.", files={"notes.md": b"Plain notes."})
    write_skill(high / "common", "outer", "Does outer things.", files={"own.txt": b"Its own."})
    write_skill(low, "lowest", "Does low things.")
    for team, word in WORDS.items():
        _write_team(high, team, word)
        write_skill(high / "common", f"{team}-dependent", f"Needs {word}-main.", fields=f"requires: [{word}-main]")
        write_skill(low, f"{word}-main", f"Shadowed by {word}-main.")
        write_skill(high / team, "refunds", f"Refunds, the {word} way.")
    return high, low


def _write_team(root: Path, team: str, word: str) -> None:
    description = f"Does {word}-things with many a {word}."
    files = {f"{word}.py": b"print(1)", f"references/{word}.md": f"The {word} reference.".encode(), "a.txt": b"same"}
    body = f"Do the {word} with {{{{{word}_parameter}}}}."
    write_skill(root / team, f"{word}-main", description, body, MAIN.replace("WORD", word), files)
    write_skill(root / team, f"{word}-always", description, fields="metadata: {jdai: {always: true}}")
    write_skill(root / team, f"{word}-users", description, fields="disable-model-invocation: true")
    write_skill(root / team, f"{word}-models", description, fields="user-invocable: false")
    write_skill(root / team, f"{word}-gated", description, fields=f"when: {{requires: {{env: [{word.upper()}_GONE]}}}}")
    write_skill(root / team, f"{word}-broken", "''", f"A {word} without description.")
    write_skill(root / team, f"{word}-wrong", description, f"See [it]({word}-absent.md).", f"{word}-field: 1")
    write_skill(root / "common" / "outer" / team, f"{word}-inner", description, files={f"{word}.txt": word.encode()})


def write_workflows(root: Path) -> dict[str, Any]:
    """Write a workflow for a skill of each team; return the settings with which runs are offered, without a model."""
    folder = root / "workflows"
    folder.mkdir()
    for word in (*WORDS.values(), "plain"):
        step = f"steps: [{{kind: skill, name: It, target: {word if word == 'plain' else f'{word}-main'}}}]"
        (folder / f"{word}-flow.yaml").write_text(f"name: {word}-flow\ndescription: Performs {word}.\n{step}\n")
    runs = (OptionalTool("run_skill"), OptionalTool("run_workflow"))
    # Nothing listens on the port of discard.
    return {"tools": (*SWITCHED_ON["tools"], *runs), "model": "http://127.0.0.1:9/v1#m", "workflows": (str(folder),)}


def remove_team(root: Path, team: str) -> None:
    """Remove what only one team has, and what depends on that."""
    for name in (team, f"{team}-dependent", f"{WORDS[team]}-main"):
        for folder in [*root.rglob(name)]:
            shutil.rmtree(folder)


def host_of(
    sources: tuple[Path, ...], rule: ViewRule | None = RULE, records: Records | None = None, **settings: Any
) -> Host:
    given = {"watch": WatchMode.OFF, "usage": False, "port": 0, "transport": Transport.HTTP, **SWITCHED_ON}
    given |= {"structured_results": True, **settings}
    library = Library(explicit_sources([*sources]), current_environment)
    return Host(library, make_settings(**given), rule=rule, records=records)


@asynccontextmanager
async def serving_http(host: Host) -> AsyncGenerator[str]:
    """Serve in this process, on a real socket; yields the URL."""
    server = SkillServer(host, local=False)
    with listen(host.settings.http) as listener:
        running = HttpServer(server, host)
        async with anyio.create_task_group() as tasks, server.exchanges.serving():

            async def serve() -> None:
                await running.serve(sockets=[listener])

            tasks.start_soon(serve)
            async with anyio.create_task_group() as beside:
                beside.start_soon(host.service(RunSupervisor).run)
                yield f"http://127.0.0.1:{listener.getsockname()[1]}{host.settings.http.path}"
                beside.cancel_scope.cancel()
            running.should_exit = True


async def _serve_stdio(host: Host) -> None:
    server = SkillServer(host, local=True)

    async def at_end() -> None:
        return None

    async with server.exchanges.serving():
        await serve_stdio(server, at_end)


if __name__ == "__main__":
    anyio.run(_serve_stdio, host_of(tuple(map(Path, sys.argv[1:])), transport=Transport.STDIO))
