"""The tool `ask_user`: a question to the user in the middle of a run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from skills_core.errors import UnansweredError
from skills_core.guard.tool import Effect, Role, Tool
from skills_core.toolboxes import Capability

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext

__all__ = ["ask_user_tool"]

logger = logging.getLogger(__name__)

MAX_QUESTION = 4000

_UNANSWERED: Final = (
    "No user answers. That is not consent: leave out what needs it, and say so. If the question was only about a "
    "detail, continue with what is most likely meant, and say what you assumed."
)


def ask_user_tool() -> Tool:
    """Return the tool, which asks the user of the call's context."""

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        question, choices = arguments.get("question"), arguments.get("choices")
        offered = [choice for choice in choices if isinstance(choice, str)] if isinstance(choices, list) else []
        try:
            answer = await context.user.ask(str(question), offered)
        except Exception:
            logger.exception("run %s: the user could not be asked", context.run_id)
            answer = None
        if answer is None:
            raise UnansweredError(_UNANSWERED)
        return answer

    return Tool(
        "ask_user",
        "Ask the user one question whose answer you cannot find out yourself, and wait for the answer.",
        {
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION},
                "choices": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": 200},
                    "maxItems": 20,
                    "uniqueItems": True,
                    "description": "The answers to choose from, where there are only a few.",
                },
            },
            "required": ["question"],
            "additionalProperties": False,
        },
        Effect.READS,
        "the user",
        perform,
        Role(frozenset({Capability.ASK_USER})),
        waits_for_user=True,
        built_in=True,
    )
