"""The panel `Evals` of a skill's page: what evals measured, and how often which agent loads the skill when it should.

It shows numbers alone: prompts, expected answers and outputs stay in the report of `skillserve report`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from server.capabilities.evals.iterations.plan import workspace_of
from server.capabilities.evals.report.folder import WorkspaceFolder, natural
from server.capabilities.evals.report.page import iteration_lines
from server.capabilities.evals.report.scores import interval_text, points, points_interval, spread_text
from server.capabilities.evals.report.trigger_results import read_triggers, trigger_verdict
from server.capabilities.evals.report.workspace import iteration_names, read_iteration
from server.capabilities.evals.tested_skills import load_version
from server.capability import PageParts, SkillPanel
from skills_core.disk.files import Reader
from skills_core.disk.sources import SkillKind
from skills_core.errors import SkillsError
from skills_core.evals.agents.kind import record

if TYPE_CHECKING:
    from pathlib import Path

    from server.capabilities.evals.report.model import Iteration, TriggerSet
    from server.capability import Visit
    from skills_core.skills.skill import Skill

_MAX_ITERATIONS: Final = 20
_MAX_TRIGGERS: Final = 20


class MeasuredTriggers(NamedTuple):
    """The latest trigger results of one agent."""

    agent: str
    results: TriggerSet


def page_parts() -> PageParts:
    """Return the panel, and what its template calls."""
    functions = {
        "interval_text": interval_text,
        "points": points,
        "points_interval": points_interval,
        "spread_text": spread_text,
        "trigger_verdict": trigger_verdict,
    }
    return PageParts(panels=(SkillPanel("evals", "Evals", "evals/evals.html", _show),), globals=functions)


def _show(skill: Skill, visit: Visit) -> Mapping[str, Any] | None:
    """Return the values for the template; None if the skill has no results beside its folder."""
    del visit
    if skill.content.kind is not SkillKind.FOLDER:
        return None
    folder = skill.source.root / skill.content.place
    root = workspace_of(folder)
    if not root.is_dir():
        return None
    with Reader() as reader:
        workspace = WorkspaceFolder(root, reader)
        names = iteration_names(workspace)[-_MAX_ITERATIONS:]
        iterations = [read_iteration(workspace, name, place, None) for place, name in enumerate(names, 1)]
        triggers = list(_by_agent(workspace, names))
        config = record(workspace.json(f"{names[-1]}/config.json".lstrip("/"))) if names else {}
    if not iterations and not triggers:
        return None
    return {
        "newest": iterations[-1] if iterations else None,
        "is_old": _is_old(folder, config.get("skill")),
        "labels": [each.label for each in iterations],
        "lines": iteration_lines(iterations),
        "triggers": triggers,
        "problems": len(workspace.problems),
        "subject": _subject(iterations[-1]) if iterations else "",
    }


def _subject(iteration: Iteration) -> str:
    return iteration.subject.replace("_", " ")


def _is_old(folder: Path, measured: object) -> bool | None:
    """Tell whether the skill has changed since it was measured; None if that is not known."""
    with suppress(SkillsError):
        return load_version(folder).digest != measured if isinstance(measured, str) else None
    return None


def _by_agent(workspace: WorkspaceFolder, iterations: list[str]) -> Iterator[MeasuredTriggers]:
    """Yield the latest results of each agent."""
    names = sorted((name for name in workspace.folders() if name not in iterations), key=natural)
    found: dict[str, TriggerSet] = {}
    for place, name in enumerate(names[-_MAX_TRIGGERS:]):
        results = read_triggers(workspace, name, place)
        if results is not None:
            facts = dict(results.facts)
            agent = "search" if results.ranked else facts.get("Client") or facts.get("Agent") or "agent"
            found[agent] = results
    yield from (MeasuredTriggers(agent, results) for agent, results in sorted(found.items()))
