"""Helpers for tests of skills: parse one, evaluate its gates on a machine of your own, perform it by a script.

A model that follows a script and scores in a row need neither a network nor luck. Performing needs the extra `run`,
which is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skills_core.testing.script import Call
from skills_core.testing.skills import evaluate_gates, mock_environment, skill_of

if TYPE_CHECKING:
    from skills_core.testing.scores import SequentialScoreEvaluator
    from skills_core.testing.scripted_model import ScriptedModel
    from skills_core.testing.skill_run import perform
    from skills_core.testing.workflows import CapturedStep, WorkflowCapture

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

_FROM = {
    "CapturedStep": "workflows",
    "ScriptedModel": "scripted_model",
    "SequentialScoreEvaluator": "scores",
    "WorkflowCapture": "workflows",
    "perform": "skill_run",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is asked for
    """Import what performs skills when it is asked for."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"skills_core.testing.{_FROM[name]}"), name)
