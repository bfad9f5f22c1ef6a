"""The limits of a run and its outcome: frozen values that are reported, recorded, and read back as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from skills_core.guard.tool import CallLimits, ToolCall


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of a run. Those of tools hold for each call."""

    turns: int = 25
    """Requests to the model in all attempts together, including those for scores."""
    tokens: int = 500_000
    """Tokens in and out, as the model's provider counts them."""
    calls: int = 200
    """Tool calls, including refused ones."""
    seconds: float = 900.0
    output_characters: int = 200_000
    """Most characters of the output; a longer one is cut, and the outcome says so."""
    tool_seconds: float = 120.0
    tool_characters: int = 50_000
    """Most characters of a tool's result that the model receives."""

    @property
    def of_calls(self) -> CallLimits:
        """The limits of each tool call."""
        return CallLimits(self.tool_seconds, self.tool_characters)


DEFAULT_LIMITS = RunLimits()
"""The limits of a run without settings."""


class RunStatus(StrEnum):
    """How a run ended. `INTERRUPTED` occurs only in traces: such a run has no outcome yet, and is continued."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"


class RunProblem(StrEnum):
    """Why a run did not complete, or completed with less than it should have. The values are part of the contract."""

    MODEL_ERROR = "model_error"
    TURN_LIMIT = "turn_limit"
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - no secret
    CALL_LIMIT = "call_limit"
    TIME_LIMIT = "time_limit"
    OUTPUT_CUT = "output_cut"
    NO_OUTPUT = "no_output"
    BELOW_MIN_SCORE = "below_min_score"
    NOT_SCORED = "not_scored"
    SIDE_EFFECTS = "side_effects"
    SKILL_CHANGED = "skill_changed"
    GIVEN_UP = "given_up"
    CONFIGURATION = "configuration"
    INTERNAL_ERROR = "internal_error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class ActivationOrigin(StrEnum):
    """Why a skill besides the performed one is part of a run; `CALLED` says that the model activated it."""

    ALWAYS_ON = "always_on"
    REQUIRED = "required"
    CALLED = "called"


@dataclass(frozen=True, slots=True)
class ActivatedSkill:
    """A skill whose instructions the model of a run received besides those of the performed one."""

    skill: str
    digest: str | None
    origin: ActivationOrigin


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests and tokens that a run used."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
        )


UNKNOWN_TRIGGER = "unknown"
"""The trigger of a run that was interrupted before it recorded one."""

NO_USAGE = Usage()
"""No request was made to a model."""


@dataclass(frozen=True, slots=True)
class CriterionScore:
    """How far an output meets one criterion, from 0 to 1, and the evaluator's finding."""

    criterion: str
    score: float
    finding: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """The score of an output, from 0 to 1, overall and for each criterion."""

    overall: float
    criteria: tuple[CriterionScore, ...] = ()
    finding: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at performing the skill; `score` is None if it was not scored."""

    output: str
    score: Score | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run. `output` and `score` are those of the best attempt, the first among equals.

    `digest` is the digest of the performed skill. `message` explains `problem`. `activated_skills` are in the order in
    which the model received them. `trigger_reason` says who or what began the run, as in `command: run`.
    """

    run_id: str
    skill: str
    digest: str | None
    status: RunStatus
    output: str = ""
    problem: RunProblem | None = None
    message: str = ""
    score: Score | None = None
    attempts: tuple[Attempt, ...] = ()
    usage: Usage = NO_USAGE
    tool_calls: tuple[ToolCall, ...] = field(default=())
    activated_skills: tuple[ActivatedSkill, ...] = ()
    trigger_reason: str = UNKNOWN_TRIGGER
