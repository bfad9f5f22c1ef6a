"""What a trace is made of: frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from skills_core.run.outcome import NO_USAGE, Score, ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.skill import Skill

__all__ = ["Event", "ModelCalled", "RunHeader", "Scored", "ToolCalled", "now"]


def now() -> str:
    """Return this moment in UTC, as ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class RunHeader:
    """What is known of a run before it begins. `model` is what settings call it, `request` the user's message."""

    run_id: str
    skill: str
    name: str
    uri: str
    digest: str | None
    model: str
    parameters: Mapping[str, str]
    request: str | None
    started: str = field(default_factory=now)

    @classmethod
    def of(cls, run_id: str, skill: Skill, model: str, parameters: Mapping[str, str], request: str | None) -> RunHeader:
        """Return the header of a run of `skill`."""
        return cls(run_id, skill.key, skill.name, skill.uri, skill.digest, model, dict(parameters), request)


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """The model was asked: `text` is its answer, `wanted` the tools that it wants called, `error` why there is none."""

    at: str
    seconds: float
    model: str | None = None
    text: str = ""
    wanted: tuple[str, ...] = ()
    finish: str | None = None
    usage: Usage = NO_USAGE
    error: str | None = None
    kind: str = "model"


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool was called, or the call was turned down: what the guard and the user said is in `call`."""

    at: str
    call: ToolCall
    kind: str = "tool"


@dataclass(frozen=True, slots=True)
class Scored:
    """An output was scored; `error` is why it could not be."""

    at: str
    attempt: int
    score: Score | None
    error: str | None = None
    kind: str = "score"


Event: TypeAlias = "ModelCalled | ToolCalled | Scored"
