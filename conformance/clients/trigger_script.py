"""A skill, its trigger queries, and a model whose choices depend on the description of the skill."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conformance.clients.dialects.messages import Call, Text
from conformance.clients.host_tools import call_for, search_for
from conformance.clients.scripted_model import Reply
from server.capabilities.evals.triggers.trigger_runs import canary_query

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conformance.clients.dialects.messages import Request

__all__ = ["BETTER", "HARD", "NEAR", "OLD", "PLAIN", "SKILL", "TriggerModel", "write_skill"]

SKILL = "tide-tables"

OLD = "Works out when a harbour falls dry. Use when the user asks for high water or low water."
BETTER = "Use this skill for any plan by the sea that depends on the water level. Not for the weather."

_PORTS = ("Whitby", "Husum", "Concarneau", "Brest", "Roscoff", "Emden", "Ribe", "Margate")
_SANDS = ("Neuwerk", "Tombelaine", "Lindisfarne", "Amrum", "Hilbre", "Noirmoutier", "Cramond", "Omey")
_BAYS = ("Dover", "Cuxhaven", "Cancale", "Oban", "Ostend", "Harwich", "Wick", "Bude")
_FAR = ("Genoa", "Lisbon", "Piraeus", "Valencia", "Izmir", "Haifa", "Split", "Naples")

PLAIN = tuple(f"When does the harbour of {place} fall dry?" for place in _PORTS)
"""Queries for which the model loads the skill under both descriptions."""

HARD = tuple(f"Can we walk over the sands to {place} on Sunday?" for place in _SANDS)
"""Queries for which it does so under the better description alone."""

NEAR = tuple(f"Will it rain in the harbour of {place}?" for place in _BAYS)
"""Queries for which it does so under the old description alone, although it should not."""

NEVER = tuple(f"Which ships lie in the port of {place}?" for place in _FAR)

_FEW = 4
"""Queries of each group, as far as no description has to be decided on."""


def write_skill(folder: Path, *, for_verdict: bool) -> Path:
    """Write the skill with its queries below `folder`, many enough for a verdict or a few; return its folder."""
    skill = folder / SKILL
    (skill / "evals").mkdir(parents=True)
    text = f"---\nname: {SKILL}\n# The port authority reads this.\ndescription: >-\n  {OLD}\nlicense: MIT\n---\n"
    (skill / "SKILL.md").write_text(f"{text}# Tide tables\n\nRead the table.\n", encoding="utf-8")
    plain, hard, near, never = (group if for_verdict else group[:_FEW] for group in (PLAIN, HARD, NEAR, NEVER))
    queries = [{"query": query, "should_trigger": True} for query in (*plain, *hard)]
    queries += [{"query": query, "should_trigger": False} for query in (*near, *never)]
    (skill / "evals/eval_queries.json").write_text(json.dumps(queries), encoding="utf-8")
    return skill


class TriggerModel:
    """Answers the agents under test and the requests for a revision; it keeps no state between requests."""

    def __init__(self, load: Callable[[str], Call], *, via_server: bool) -> None:
        self._load = load
        self._via_server = via_server

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        if not request.tools:
            return Reply(
                [Text(f"<description>{BETTER}</description>" if "current_description" in request.text else "ok")]
            )
        if request.results and "<skill_content" not in request.results[-1] and self._via_server:
            return self._wanted(request)
        return Reply([Text("done")]) if request.results else self._wanted(request)

    def _wanted(self, request: Request) -> Reply:
        better = BETTER in request.text
        queries = (*PLAIN, canary_query(SKILL), *(HARD if better else NEAR))
        if not any(query in request.text for query in queries):
            return Reply([Text("done")])
        if not self._via_server:
            call = self._load(SKILL)
            return Reply([call], call)
        step = Call("activate_skill", {"name": SKILL})
        search = search_for(step, request.tools)
        call = search or call_for(step, request.tools) or Call("activate_skill", {"name": SKILL})
        return Reply([call], step)
