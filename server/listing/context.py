"""The prompt `with_skills` and the tool `skill_context`, for programs that assemble prompts themselves.

Both are listed while models may use at least one skill; the tool also has to be switched on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.config.settings import OptionalTool
from server.listing.schemas import SCORED, TEXT, TEXTS, hints, list_of, object_of, or_null

if TYPE_CHECKING:
    from server.config.settings import Settings
    from skills_core.catalog import Catalog

__all__ = ["MAX_MESSAGE", "MESSAGE", "WITH_SKILLS", "offers_prompt", "offers_tool", "prompt", "tools"]

WITH_SKILLS = "with_skills"
MESSAGE = "message"

MAX_MESSAGE = 100_000
"""Most characters of a message."""

_NAMED = {"name": TEXT, "digest": TEXT, "uri": TEXT}
_FOUND = object_of(**_NAMED, **SCORED)


def offers_prompt(catalog: Catalog) -> bool:
    """Return whether the prompt is listed: there are skills to offer, and no skill has the prompt's name."""
    return bool(catalog.offered) and catalog.get(WITH_SKILLS) is None


def offers_tool(catalog: Catalog, settings: Settings) -> bool:
    """Return whether the tool is listed."""
    return bool(catalog.offered) and OptionalTool.SKILL_CONTEXT in settings.tools.enabled


def prompt() -> dict[str, Any]:
    """Return the entry of the prompt in `prompts/list`."""
    return {
        "name": WITH_SKILLS,
        "title": "With skills",
        "description": "Send a message together with the skills that apply to it.",
        "arguments": [{"name": MESSAGE, "description": "What you want to say.", "required": True}],
    }


def tools(catalog: Catalog, settings: Settings) -> list[dict[str, Any]]:
    """Return the entry of the tool in `tools/list`, if it is listed."""
    return [_SKILL_CONTEXT] if offers_tool(catalog, settings) else []


_SKILL_CONTEXT: dict[str, Any] = {
    "name": OptionalTool.SKILL_CONTEXT.value,
    "title": "Skills for a message",
    "description": (
        "For programs that put a prompt together: return a user's message with the skills that apply to it, and which "
        "these are. A model calls activate_skill instead."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            MESSAGE: {"type": "string", "maxLength": MAX_MESSAGE, "description": "The user's message, as it was typed."}
        },
        "required": [MESSAGE],
        "additionalProperties": False,
    },
    "outputSchema": object_of(
        text=TEXT,
        always=list_of(object_of(**_NAMED), "Skills that go with every message."),
        triggered=list_of(object_of(**_NAMED, triggers=TEXTS), "Skills with a trigger in the message."),
        left_out=list_of(TEXT, "Names of those that were too long for the text, which names them too."),
        called=or_null(object_of(**_NAMED), "The skill that the message calls, as /name does."),
        selected=or_null(_FOUND, "The skill that the search found."),
        menu=list_of(_FOUND, "Where the first matches lie close together: a choice to make."),
    ),
    "annotations": hints("Skills for a message"),
}
