"""The prompt `with_skills` and the tool `skill_context`, for programs that assemble prompts themselves.

Both are listed while models may use at least one skill; the tool also has to be switched on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.config.settings import OptionalTool
from server.listing.schemas import MAX_TAGS, SCORED, TEXT, TEXTS, hints, list_of, object_of, or_null

if TYPE_CHECKING:
    from server.config.settings import Settings
    from skills_core.catalog import Catalog

__all__ = [
    "EXCLUDE_TAGS",
    "INPUT",
    "MAX_MATCHES",
    "MAX_MESSAGE",
    "MESSAGE",
    "MIN_SCORE",
    "TAGS",
    "TOP_K",
    "WITH_SKILLS",
    "offers_prompt",
    "offers_tool",
    "prompt",
    "tools",
]

WITH_SKILLS = "with_skills"
MESSAGE = "message"
MIN_SCORE = "min_score"
TOP_K = "top_k"
TAGS = "tags"
EXCLUDE_TAGS = "exclude_tags"

MAX_MESSAGE = 100_000
"""Most characters of a message."""

MAX_MATCHES = 5
"""Most matches that take part, which is as many as a menu shows."""

_NAMED = {"name": TEXT, "digest": TEXT, "uri": TEXT}
_FOUND = object_of(**_NAMED, **SCORED)


def offers_prompt(catalog: Catalog) -> bool:
    """Return whether the prompt is listed: there are skills to offer, and no skill has the prompt's name."""
    return bool(catalog.offered) and catalog.get(WITH_SKILLS) is None


def offers_tool(catalog: Catalog, settings: Settings) -> bool:
    """Return whether the tool is listed."""
    return bool(catalog.offered) and OptionalTool.SKILL_CONTEXT in settings.tools.enabled


def prompt() -> dict[str, Any]:
    """Return the entry of the prompt in `prompts/list`.

    The other arguments of the tool work here too, but are not listed: clients ask the user for each argument that is
    listed, fill them with the words of the message one by one, or leave prompts with several out.
    """
    return {
        "name": WITH_SKILLS,
        "title": "With skills",
        "description": "Send a message together with the skills that apply to it.",
        "arguments": [{"name": MESSAGE, "description": "What you want to say.", "required": True}],
    }


def tools(catalog: Catalog, settings: Settings) -> list[dict[str, Any]]:
    """Return the entry of the tool in `tools/list`, if it is listed."""
    return [_SKILL_CONTEXT] if offers_tool(catalog, settings) else []


_TAGS: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "maxItems": MAX_TAGS}

INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        MESSAGE: {"type": "string", "maxLength": MAX_MESSAGE, "description": "The user's message, as it was typed."},
        MIN_SCORE: {"type": "number", "minimum": 0, "description": "Leave out matches with a lower score."},
        TOP_K: {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_MATCHES,
            "description": f"Most matches that take part, {MAX_MATCHES} if not given; with 1, there is no menu.",
        },
        TAGS: {**_TAGS, "description": "Search only skills with such a tag."},
        EXCLUDE_TAGS: {**_TAGS, "description": "Leave out skills with such a tag."},
    },
    "required": [MESSAGE],
    "additionalProperties": False,
}
"""The arguments of the tool, which the prompt takes as well."""

_SKILL_CONTEXT: dict[str, Any] = {
    "name": OptionalTool.SKILL_CONTEXT.value,
    "title": "Skills for a message",
    "description": (
        "For programs that put a prompt together: return a user's message with the skills that apply to it, and which "
        "these are. A model calls activate_skill instead."
    ),
    "inputSchema": INPUT,
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
