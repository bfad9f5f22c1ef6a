"""Helpers for testing skills: parse a skill, evaluate its gates on a mock machine, perform it with a scripted model.

Scripted replies and scores make such tests deterministic and independent of the network. `perform` and the names that
depend on it need the extra `run`, which is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skills_core.testing.skills import Call, evaluate_gates, mock_environment, skill_of

if TYPE_CHECKING:
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
