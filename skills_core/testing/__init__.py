"""Helpers for tests of skills: a model that follows a script, scores in a row, and what a workflow's steps came to.

To parse a skill use `skills_core.parse_skill`, to look at gates `skills_core.evaluate_gate` with an `Environment` of
your own; both need no more than the core. What is here needs the extra `run`.
"""

from __future__ import annotations

from skills_core.testing.scores import SequentialScoreEvaluator
from skills_core.testing.script import Call
from skills_core.testing.scripted_model import ScriptedModel

__all__ = ["Call", "ScriptedModel", "SequentialScoreEvaluator"]
