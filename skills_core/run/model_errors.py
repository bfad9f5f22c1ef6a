"""Describes the failure of a request to a model in one sentence.

Providers' libraries raise errors of any type, down to IndexError for an answer without choices. Every failure is one of
three: the provider refused or failed, it could not be reached, or its answer cannot be used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["describe_model_error", "describe_validation_error"]

_MAX_ERRORS = 5
# Most errors that the description of one answer lists.

_UNREADABLE = "the provider's answer cannot be used"
_EXPECTED = "Check that the address speaks the API that the model's name stands for."


def describe_model_error(error: Exception) -> str:
    """Return why a request to a model failed; the provider's part of the text may contain secrets."""
    return f"The model did not answer: {_reason(error)}"


def _reason(error: Exception) -> str:
    from pydantic import ValidationError  # noqa: PLC0415 - only runs need it
    from pydantic_ai.exceptions import AgentRunError, UnexpectedModelBehavior, UserError  # noqa: PLC0415 - likewise

    said = " ".join(str(error).split())
    if isinstance(error, UnexpectedModelBehavior):
        cause = error.__cause__
        return f"{_UNREADABLE}: {describe_validation_error(cause) if isinstance(cause, ValidationError) else said}"
    if isinstance(error, (AgentRunError, UserError)):
        return said
    if isinstance(error, OSError):
        return f"the provider cannot be reached: {said or 'the connection failed'}"
    if isinstance(error, LookupError):
        return f"{_UNREADABLE}: it lacks what every answer has, such as an entry in `choices`. {_EXPECTED}"
    if isinstance(error, (AttributeError, TypeError, ValueError)):
        return f"{_UNREADABLE}: it has another form than answers of such a model. {_EXPECTED}"
    return said or "the library for its provider gives no reason"


def describe_validation_error(error: ValidationError) -> str:
    """Return where a value does not fit its model, and what is expected there."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)[:_MAX_ERRORS]
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}" for fault in faults)
