"""The exception of evals."""

from __future__ import annotations

from skills_core.errors import SkillsError

__all__ = ["EvalError"]


class EvalError(SkillsError):
    """An eval cannot begin or continue; the message says what to do."""
