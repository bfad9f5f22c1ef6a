"""The results of an improvement, and the reasons for them; the values are part of the contract."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ImprovementStatus(StrEnum):
    """How far an improvement has come. One whose process was killed is `BEGUN` until a process settles it."""

    BEGUN = "begun"
    IMPROVED = "improved"
    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DROPPED = "dropped"
    SKIPPED = "skipped"


class ImprovementReason(StrEnum):
    """Why a skill was not improved, or not without a person."""

    # The improvement was not begun.
    NO_HISTORY = "no_history"
    NOT_A_FOLDER = "not_a_folder"
    NO_MODEL = "no_model"
    BUSY = "busy"
    TOO_MANY = "too_many"
    # The model did not finish.
    TIME_LIMIT = "time_limit"
    RUN_FAILED = "run_failed"
    NOTHING_CHANGED = "nothing_changed"
    # The change is out of bounds.
    FILE_ADDED = "file_added"
    FILE_REMOVED = "file_removed"
    LINK = "link"
    NOT_A_TEXT = "not_a_text"
    OTHER_SKILL = "other_skill"
    NAME_CHANGED = "name_changed"
    FRONTMATTER_CHANGED = "frontmatter_changed"
    DESCRIPTION_CHANGED = "description_changed"
    TOO_LARGE = "too_large"
    SUPPRESSION_ADDED = "suppression_added"
    RECORD_COPIED = "record_copied"
    SECRET_ADDED = "secret_added"  # noqa: S105 - no secret
    HIDDEN_TEXT = "hidden_text"
    INVALID = "invalid"
    AUDIT_ERROR = "audit_error"
    # The change is within the bounds, and a person decides.
    NOT_A_CORRECTION = "not_a_correction"
    # The change is not an improvement.
    EVALS_FAILED = "evals_failed"
    PASS_RATE_LOWER = "pass_rate_lower"  # noqa: S105 - no secret
    REPLAY_FAILED = "replay_failed"
    SAME_FAILURE = "same_failure"
    # The change could not be completed.
    SKILL_CHANGED = "skill_changed"
    NOT_WRITTEN = "not_written"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a change is not taken: the reason, and the place in words."""

    reason: ImprovementReason
    message: str
