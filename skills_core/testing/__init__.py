"""Helpers for testing skills: parse a skill, evaluate its gates on a mock machine, perform it with a scripted model.

Scripted replies and scores make such tests deterministic and independent of the network. `perform` and the names that
depend on it need the extra `run`, which is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from skills_core.disk.sources import Source
from skills_core.loading.single_skill import parse_skill
from skills_core.skills.gates import Environment, Exclusion, evaluate_gate
from skills_core.skills.skill import Skill, SkillContent, SkillFiles, State

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue
    from skills_core.testing.skill_run import (
        CapturedStep,
        ScriptedModel,
        SequentialScoreEvaluator,
        WorkflowCapture,
        perform,
    )

__all__ = [
    "Call",
    "CapturedStep",
    "ScriptedModel",
    "SequentialScoreEvaluator",
    "WorkflowCapture",
    "evaluate_gates",
    "mock_environment",
    "perform",
    "skill_of",
]

_LAZY = ("CapturedStep", "ScriptedModel", "SequentialScoreEvaluator", "WorkflowCapture", "perform")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    """Import the names that need the extra `run` on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("skills_core.testing.skill_run"), name)


def skill_of(text: str) -> Skill:
    """Return the active skill in the text of a SKILL.md, without files and without a place on disk.

    Raises:
        InvalidSkillError: the text is not a valid skill; the subclass says why.
    """
    instructions = parse_skill(text, "SKILL.md")
    content = SkillContent(instructions.name, instructions, SkillFiles(), None)
    return Skill(content, Source(Path()), instructions.name, instructions.name, State.ACTIVE)


def mock_environment(
    *,
    os: str = "linux",
    bins: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    config: Mapping[str, JsonValue] | None = None,
) -> Environment:
    """Return a machine that has only these executables, environment variables and configuration keys."""
    return Environment(os=os, has_bin=frozenset(bins).__contains__, variables=env or {}, config=config or {})


def evaluate_gates(skill: Skill, environment: Environment) -> Exclusion | None:
    """Return why a skill would be excluded on a machine, with the reason code; None if it would be active."""
    entry = environment.entries.get(skill.skill_key.lower())
    for gate in skill.frontmatter.gates:
        exclusion = evaluate_gate(gate, environment, entry, skill.frontmatter.primary_env)
        if exclusion is not None:
            return exclusion
    return None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool by the model; `arguments` may be a string, to imitate a model that writes invalid JSON."""

    tool: str
    arguments: Mapping[str, JsonValue] | str = field(default_factory=dict)


Reply: TypeAlias = "str | Call | Sequence[Call] | Exception"
"""A reply of a scripted model: a text, one or several calls, or an error to raise."""
