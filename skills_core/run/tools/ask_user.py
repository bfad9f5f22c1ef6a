"""The tool `ask_user`: a question to the user in the middle of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.errors import ToolFailedError
from skills_core.run.tools.tool import Effect, Role, Tool
from skills_core.toolboxes import Capability

if TYPE_CHECKING:
    from skills_core.run.ports import JsonObject
    from skills_core.run.tools.tool import CallContext

__all__ = ["ask_user_tool"]

MAX_QUESTION = 4000


def ask_user_tool() -> Tool:
    """Return the tool, which asks the user of the call's context."""

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        question, choices = arguments.get("question"), arguments.get("choices")
        offered = [choice for choice in choices if isinstance(choice, str)] if isinstance(choices, list) else []
        answer = await context.user.ask(str(question), offered)
        if answer is None:
            raise ToolFailedError("No user answers. Continue with what is most likely meant, and say what you assumed.")
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
