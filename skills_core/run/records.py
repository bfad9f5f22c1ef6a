"""What a run came to, as JSON and back: for checkpoints, traces and whoever reads `--json`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from skills_core.run.outcome import (
    Attempt,
    CallDecision,
    CriterionScore,
    RunOutcome,
    RunProblem,
    RunStatus,
    Score,
    ToolCall,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.run.ports import JsonObject

__all__ = ["outcome_from_json", "score_from_json", "to_json", "tool_call_from_json", "usage_from_json"]


def to_json(value: object) -> JsonObject:
    """Return one of the values of `outcome` as a JSON object, its fields under their names."""
    return cast("JsonObject", _plain(value))


def tool_call_from_json(value: Mapping[str, Any]) -> ToolCall:
    """Return the call that `to_json` made this of."""
    return ToolCall(**{**value, "decision": CallDecision(value["decision"])})


def score_from_json(value: Mapping[str, Any]) -> Score:
    """Return the score that `to_json` made this of."""
    return Score(
        value["overall"], tuple(CriterionScore(**criterion) for criterion in value["criteria"]), value["finding"]
    )


def usage_from_json(value: Any) -> Usage:  # noqa: ANN401 - as it was recorded
    """Return the usage that `to_json` made this of."""
    return Usage(**value)


def outcome_from_json(value: Mapping[str, Any]) -> RunOutcome:
    """Return the outcome that `to_json` made this of."""
    attempts = (Attempt(each["output"], _score(each["score"])) for each in value["attempts"])
    return RunOutcome(
        **{
            **value,
            "status": RunStatus(value["status"]),
            "problem": RunProblem(value["problem"]) if value["problem"] else None,
            "score": _score(value["score"]),
            "attempts": tuple(attempts),
            "usage": usage_from_json(value["usage"]),
            "tool_calls": tuple(map(tool_call_from_json, value["tool_calls"])),
        }
    )


def _score(value: Mapping[str, Any] | None) -> Score | None:
    return score_from_json(value) if value else None


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
