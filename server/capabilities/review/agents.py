"""What a branch does to the work of an agent, measured by `skillserve eval` and `skillserve triggers`.

Both commands run as their users start them, each in a process of its own, on the version of the branch and on that of
the base. They run code: checks of evals, scripts of skills, and the agent itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.evals.agents.agent import EXECUTOR
from server.capabilities.evals.report.workspace import read_workspace
from server.capabilities.review.effects import effect_of
from server.capabilities.review.triggers import QueryChange, TriggerEffect
from skills_core.diagnostics import counted, shortened
from skills_core.errors import SkillsError
from skills_core.evals.grading.cases import EVALS_FILE
from skills_core.evals.triggers.queries import queries_of_skill

if TYPE_CHECKING:
    from server.capabilities.review.changes import SkillChange, Version
    from skills_core.evals.triggers.queries import Query

_MAX_SAID: Final = 300


@dataclass(frozen=True, slots=True)
class AgentFlags:
    """The agent that performs, as the flags of `eval` and `triggers` name it, and how much it does.

    `workspace` is the folder for results; each skill has one of its own in it.
    """

    workspace: Path
    agent: str | None = None
    agent_command: str | None = None
    via: str = "folder"
    agent_model: str | None = None
    agent_home: Path | None = None
    model: str | None = None
    judge_model: str | None = None
    runs: int = 3
    jobs: int = 4
    report: Callable[[str], None] = field(default=lambda _: None)

    @property
    def label(self) -> str:
        """What the report calls the agent."""
        return self.agent or ("a command" if self.agent_command else self.model or "")

    def words(self, *, for_triggers: bool) -> list[str]:
        """Return the flags; `triggers` needs to be told of our own executor, which `eval` takes by itself."""
        agent = self.agent or (EXECUTOR if for_triggers and not self.agent_command else None)
        given = {
            "--agent": agent,
            "--agent-command": self.agent_command,
            "--via": self.via,
            "--agent-model": self.agent_model,
            "--agent-home": self.agent_home,
            "--model": self.model,
            "--judge-model": None if for_triggers else self.judge_model,
            "--runs": self.runs,
            "--jobs": self.jobs,
        }
        return [f"{flag}={value}" for flag, value in given.items() if value is not None]


@dataclass(frozen=True, slots=True)
class TaskEffect:
    """What became of the test cases of a skill: the objects `effect` and `run_summary` of `eval`, and what it cost.

    `baseline` says what the skill is compared with, and `note` why there is no effect, or only one of a part.
    """

    baseline: str = ""
    effect: Mapping[str, Any] | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    cost_usd: float | None = None
    errors: int = 0
    note: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class AgentEffects:
    """The effects on one skill that an agent showed; `trigger_cost` is in US dollars, None if it is unknown."""

    task: TaskEffect
    triggers: TriggerEffect
    trigger_cost: float | None = None
    failed: bool = False


def measure_agent(change: SkillChange, before: Version, after: Version, choice: AgentFlags) -> AgentEffects:
    """Run the evals and the trigger queries of a skill with both of its versions, or with the only one."""
    if change.after is None:
        note = "the skill is removed"
        return AgentEffects(TaskEffect(note=note), TriggerEffect(change.place, change.name, note=note))
    folder = after.folder_of(change.after)
    old = before.folder_of(change.before) if change.before is not None else None
    workspace = choice.workspace / (change.place.replace("/", "-") or change.name)
    task = _task_effect(folder, old, workspace, choice)
    return _trigger_effect(change, folder, old, workspace, choice, task)


def _task_effect(folder: Path, old: Path | None, workspace: Path, choice: AgentFlags) -> TaskEffect:
    if not (folder / EVALS_FILE).is_file():
        return TaskEffect(note=f"it has no {EVALS_FILE}")
    baseline = [] if old is None else [f"--baseline={old}"]
    words = ["eval", str(folder), *baseline, f"--workspace={workspace}", *choice.words(for_triggers=False)]
    found, why = _json_of(words, choice.report)
    if "run_summary" not in found:
        return TaskEffect(note=why or "`eval` reported no results", failed=True)
    errors, effect = int(found.get("errors") or 0), found.get("effect")
    note = str(found.get("stopped") or "")
    if errors and not (effect or {}).get("cases"):
        note = note or f"{counted(errors, 'run')} failed, so nothing can be compared; see the results"
    return TaskEffect(
        "the version at the base" if old is not None else "no skill",
        effect,
        found["run_summary"],
        _cost_in(workspace),
        errors,
        note,
        failed=bool(note),
    )


def _cost_in(workspace: Path) -> float | None:
    """Return what the newest iteration has cost in US dollars; None if no agent told."""
    iterations = read_workspace(workspace).iterations
    costs = [arm.cost for arm in iterations[-1].scores.arms if arm.cost is not None] if iterations else []
    return sum(costs) if costs else None


def _trigger_effect(
    change: SkillChange, folder: Path, old: Path | None, workspace: Path, choice: AgentFlags, task: TaskEffect
) -> AgentEffects:
    def without(note: str, *, failed: bool = False) -> AgentEffects:
        return AgentEffects(task, TriggerEffect(change.place, change.name, note=note), failed=failed)

    try:
        found = queries_of_skill(folder)
    except SkillsError as error:
        return without(str(error))
    if found is None:
        return without("it has no trigger queries")
    results: list[Mapping[str, Any]] = []
    for name, version in (("before", old), ("after", folder)):
        if version is None:
            results.append({})
            continue
        queries = [f"--queries={folder / found[0]}"] if "and" not in found[0].split() else []
        place = f"--workspace={workspace}-triggers-{name}"
        measured, why = _json_of(
            ["triggers", str(version), *queries, place, *choice.words(for_triggers=True)], choice.report
        )
        if "results" not in measured or measured.get("stopped"):
            return without(why or "`triggers` reported no results", failed=True)
        results.append(measured)
    changes = _query_changes(found[1], *results)
    effect = effect_of([(each.before, each.after) for each in changes]) if old is not None else None
    costs = [cost for each in results if (cost := (each.get("costs") or {}).get("cost_usd"))]
    note = "" if old is not None else "not compared: the skill is new"
    shown = TriggerEffect(change.place, change.name, changes, effect, note)
    return AgentEffects(task, shown, sum(costs) if costs else None)


def _query_changes(
    queries: Sequence[Query], before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[QueryChange, ...]:
    old, new = _rates(before), _rates(after)
    return tuple(
        QueryChange(query, _score(query, old), _score(query, new), old.get(query.id, ("", None))[0], new[query.id][0])
        for query in queries
        if query.id in new
    )


def _rates(found: Mapping[str, Any]) -> dict[str, tuple[str, float | None]]:
    return {
        str(each["id"]): (f"{each['triggers']} of {each['runs']}", each["trigger_rate"])
        for each in found.get("results", ())
    }


def _score(query: Query, rates: Mapping[str, tuple[str, float | None]]) -> float | None:
    """Return the share of the runs that were right; None if none counts."""
    rate = rates.get(query.id, ("", None))[1]
    if rate is None:
        return None
    return rate if query.should_trigger else 1 - rate


def _json_of(words: Sequence[str], report: Callable[[str], None]) -> tuple[dict[str, Any], str]:
    """Return what a command of ours prints with `--json`, and the last line of its messages."""
    report(f"runs `{words[0]}` on {words[1]}")
    # Without -P, Python would import modules from the working directory, which the branch wrote.
    command = [sys.executable, "-P", "-m", "server", *words, "--json"]
    why = ""
    with TemporaryFile() as output:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE) as process:  # noqa: S603 - our own command
            for line in process.stderr or ():
                if text := line.decode("utf-8", "replace").strip().removeprefix("skillserve: "):
                    report(text)
                    why = shortened(text, _MAX_SAID)
        output.seek(0)
        try:
            found = json.loads(output.read())
        except ValueError:
            return {}, why or f"the command ended with {process.returncode}"
    return (found if isinstance(found, dict) else {}), why
