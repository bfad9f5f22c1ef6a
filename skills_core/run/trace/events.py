"""The header and the events of a trace, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from skills_core.guard.tool import ToolCall  # noqa: TC001 - decoding looks it up
from skills_core.run.outcome import NO_USAGE, UNKNOWN_TRIGGER, ActivatedSkill, Score, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.skill import Skill

__all__ = ["Event", "ModelCalled", "RunHeader", "Scored", "ToolCalled", "now"]


def now() -> str:
    """Return this moment in UTC, as ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class RunHeader:
    """What is known of a run besides its events. `model` is its name in the settings, `request` the user's message.

    `activated_skills` grows while the run goes on.
    """

    run_id: str
    skill: str
    name: str
    uri: str
    digest: str | None
    model: str
    parameters: Mapping[str, str]
    request: str | None
    started: str = field(default_factory=now)
    activated_skills: tuple[ActivatedSkill, ...] = ()
    trigger_reason: str = UNKNOWN_TRIGGER

    @classmethod
    def of(cls, run_id: str, skill: Skill, model: str, parameters: Mapping[str, str], request: str | None) -> RunHeader:
        """Return the header of a run of `skill`."""
        return cls(run_id, skill.key, skill.name, skill.uri, skill.digest, model, dict(parameters), request)


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A request to the model: `text` is its answer, `wanted` the tools it calls, `error` why there is no answer."""

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
    """A tool call, executed or refused; `call` holds the decisions of guard and user."""

    at: str
    call: ToolCall
    kind: str = "tool"


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of an output; `error` says why there is none."""

    at: str
    attempt: int
    score: Score | None
    error: str | None = None
    kind: str = "score"


Event: TypeAlias = "ModelCalled | ToolCalled | Scored"
