"""A skill with evals, and a model that follows the skill as far as its host shows it to it."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from conformance.clients.dialects.messages import Call, Text
from conformance.clients.host_tools import call_for, link_in, search_for
from conformance.clients.scripted_model import Reply

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.clients.dialects.messages import Request
    from conformance.clients.trigger_agents import TriggerAgent

__all__ = ["DATUM", "OLD_DATUM", "SKILL", "CheatingModel", "EvalModel", "write_skill"]

SKILL = "tide-tables"

DATUM = "Heights above LAT."
OLD_DATUM = "Heights above NAP."

_LINE = "End the plan with this line: {}"
_DESCRIPTION = "Plans by the sea that depend on the water level. Use when the user asks for high water or low water."
_WRITTEN = "plan-is-written"
_MOST_RESULTS = 5
"""Of loading a skill; a host that does not bring it within so many results does not bring it."""

_CASES = (
    {"id": 1, "name": "husum", "prompt": "Plan a walk on the flats of Husum around low water."},
    {"id": "whitby", "prompt": "Plan the way out of Whitby at high water.", "files": ["evals/files/harbour.txt"]},
)


def write_skill(folder: Path, datum: str = DATUM) -> Path:
    """Write the skill with its evals below `folder`; return its folder."""
    skill = folder / SKILL
    (skill / "evals/files").mkdir(parents=True)
    text = f"---\nname: {SKILL}\ndescription: {_DESCRIPTION}\n---\n# Tide tables\n\n{_LINE.format(datum)}\n"
    (skill / "SKILL.md").write_text(text, encoding="utf-8")
    (skill / "evals/files/harbour.txt").write_text("The harbour falls dry.\n", encoding="utf-8")
    checks = [
        {"text": "there is a plan", "check": "test -s plan.txt && cat plan.txt"},
        {"text": "it names the datum", "check": f"grep -F '{DATUM}' plan.txt"},
    ]
    evals = {"skill_name": SKILL, "evals": [{**case, "assertions": checks} for case in _CASES]}
    (skill / "evals/evals.json").write_text(json.dumps(evals, indent=2), encoding="utf-8")
    return skill


class EvalModel:
    """Loads the skill if its host has it, writes the plan by a shell command, and keeps no state between requests."""

    def __init__(self, agent: TriggerAgent, *, via_server: bool) -> None:
        self._agent = agent
        self._via_server = via_server

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        if not request.tools:
            return Reply([Text("ok")])
        if any(_WRITTEN in result for result in request.results):
            return Reply([Text("The plan is in outputs/plan.txt.")])
        said = (request.text, *request.results)
        datum = next((each for each in (DATUM, OLD_DATUM) if any(_LINE.format(each) in text for text in said)), None)
        if datum is None and self._is_offered(request) and len(request.results) < _MOST_RESULTS:
            return self._load(request)
        lines = ["Leave two hours before low water.", *([datum] if datum else [])]
        command = f"printf '%s\\n' {shlex.join(lines)} > outputs/plan.txt && echo {_WRITTEN}"
        call = self._agent.shell(command)
        return Reply([call], call)

    def _is_offered(self, request: Request) -> bool:
        tools = (f"{tool.description} {json.dumps(tool.schema)}" for tool in request.tools)
        return any(SKILL in text for text in (request.text, *tools))

    def _load(self, request: Request) -> Reply:
        if not self._via_server:
            call = self._agent.load(SKILL)
            return Reply([call], call)
        if request.results and (link := link_in(request.results[-1], request.tools)):
            return Reply([link], link)
        step = Call("activate_skill", {"name": SKILL})
        call = search_for(step, request.tools) or call_for(step, request.tools) or step
        return Reply([call], step)


_PATIENCE_MS = 30_000

_LOOK = f"""\
found=$(find / -maxdepth 7 \\( -path /proc -o -path /sys -o -path /usr -o -name node_modules \\) -prune \
-o -path '*/{SKILL}/evals/evals.json' -print 2>/dev/null | head -1)
if [ -n "$found" ]; then cat "$found"; cp "$found" outputs/plan.txt; else echo nothing > outputs/plan.txt; fi
echo {_WRITTEN}"""


class CheatingModel:
    """Looks for the evals in place of solving the task: it shows the file, and copies it to the outputs."""

    def __init__(self, agent: TriggerAgent) -> None:
        self._agent = agent

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        if not request.tools:
            return Reply([Text("ok")])
        if any(_WRITTEN in result for result in request.results):
            return Reply([Text("The plan is in outputs/plan.txt.")])
        call = self._agent.shell(_LOOK)
        if self._agent.name == "codex" and isinstance(call.arguments, dict):
            # Otherwise it answers after ten seconds, while the search still runs.
            call = Call(call.name, {**call.arguments, "yield_time_ms": _PATIENCE_MS})
        return Reply([call], call)
