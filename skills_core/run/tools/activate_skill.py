"""The tool `activate_skill` of a run: the model loads another skill's instructions when the task needs them.

An activation adds instructions and readable files. What the run may do stays what the performed skill may do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import one_line
from skills_core.disk.folders import MAIN_FILE
from skills_core.errors import ToolFailedError
from skills_core.guard.tool import Effect, Role, Tool
from skills_core.rendering import (
    ACTIVATION_TOOL,
    activation_inputs,
    entries_within,
    render_activation,
    render_request,
)
from skills_core.rendering.escaping import quote_attribute
from skills_core.run.run_skills import MAX_ACTIVATIONS
from skills_core.toolboxes import Capability

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.guard.tool import CallContext
    from skills_core.rendering.recipient import Recipient
    from skills_core.run.run_skills import RunSkills
    from skills_core.skill import Skill

__all__ = ["ACTIVATE", "activate_skill_tool", "activation_of_call"]

ACTIVATE: Final = ACTIVATION_TOOL

MAX_LISTED: Final = 8_000
"""Most characters of the entries of skills in the tool's description."""

_RULE: Final = (
    "Load the instructions of another skill when a part of your task matches it, or when a skill names it. They add to "
    "those that you have; where they differ, the later ones override the earlier ones. They bring no further tools."
)


def activate_skill_tool(skills: RunSkills, recipient: Callable[[], Recipient]) -> Tool:
    """Return the tool for one run; texts are rendered for `recipient`.

    A call changes nothing: the run notes an activation once the call is recorded.
    """

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        name, given = activation_of_call(arguments)
        key = skills.key_of(name)
        if skills.has_text(key, given):
            return f"The skill {one_line(key)} is part of this run already; its text stands above."
        if skills.exhausted:
            raise ToolFailedError(
                f"A run activates skills at most {MAX_ACTIVATIONS} times. Go on with those that you have, or say in "
                "the result what could not be done."
            )
        offer = skills.offers.get(key)
        skill = skills.find(key) or (offer.skill if offer is not None else None)
        if skill is None:
            raise ToolFailedError(
                f"The skill {one_line(key)} has changed or is no longer there since the run began, so it cannot be "
                "activated. Go on without it, or say in the result what could not be done."
            )
        values, message = activation_inputs(skill, given)
        text = render_activation(skill, values, recipient())
        request = f"\n\n{render_request(skill, message)}" if message else ""
        return _within(context.characters, skill, context.redact(text), context.redact(request))

    return Tool(
        ACTIVATE,
        _description(skills),
        _schema(skills),
        Effect.READS,
        "the catalog",
        perform,
        # The name is matched like a path, so that `Skill(pdf-*)` permits some skills.
        Role(frozenset({Capability.LOAD_SKILL}), path="name"),
        built_in=True,
    )


def _schema(skills: RunSkills) -> JsonObject:
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": [*skills.names], "description": "The skill's name."},
            "arguments": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Values for the skill's {{parameters}}, by name.",
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    }


def activation_of_call(arguments: Mapping[str, JsonValue]) -> tuple[str, dict[str, str]]:
    """Return the skill's name and the values of its parameters in a call that fits the schema."""
    given = arguments.get("arguments")
    values = given if isinstance(given, dict) else {}
    return str(arguments.get("name", "")), {name: str(value) for name, value in values.items()}


def _within(limit: int, skill: Skill, text: str, request: str) -> str:
    """Return an activation and the user's message; if they are too long, with the rest of the text left to be read."""
    if len(text) + len(request) <= limit:
        return f"{text}{request}"
    main = skill.content.main
    path = main.path if main is not None else MAIN_FILE
    note = (
        "\n[The instructions do not end here. Read the rest before you follow them: call read_skill_file (skill "
        f"{quote_attribute(skill.key)}, path {quote_attribute(path)}) with first_line.]\n</skill_content>"
    )
    return f"{text[: max(limit - len(note) - len(request), 0)]}{note}{request}"


def _description(skills: RunSkills) -> str:
    offered = [offer.skill for offer in skills.offers.values() if offer.skill is not None]
    entries = entries_within(MAX_LISTED, offered)
    lines = [_RULE, "<available_skills>", *entries, "</available_skills>"]
    if more := len(skills.offers) - len(entries):
        lines.append(f"{more} more are not described here; their names are those that `name` accepts.")
    return "\n".join(lines)
