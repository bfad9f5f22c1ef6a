"""Slash commands: `/name`, `/skill name`, `@name` and `$name` at the beginning of a message.

Source: Agenvoy's `MatchSkillCall`. What follows the name are the user's own words and stays as it was typed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.rendering import FREE_ARGUMENT, activation_inputs, render_activation, render_request
from skills_core.rendering.recipient import ANYBODY, Recipient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.catalog import Catalog
    from skills_core.skill import Skill

__all__ = ["SkillCall", "activation_of", "match_skill_call", "request_of", "stack_activations"]

_BLANKS = " \t\r\n"
_BLANK = re.compile(f"[{_BLANKS}]")
_SIGNS = ("/", "@", "$")
_COMMAND = "skill"


@dataclass(frozen=True, slots=True)
class SkillCall:
    """A skill that a user called by name.

    `arguments` is what follows the name, empty where nothing does. `request` is what remains of the message: the
    arguments, or the message itself, without blanks before it, where there are none.
    """

    skill: Skill
    arguments: str
    request: str


def match_skill_call(text: str, catalog: Catalog) -> SkillCall | None:
    """Return the call that `text` begins with; None where it begins with none, and stays as it is.

    A name is a key or a path of an active skill that users may invoke, up to the next blank, spelled exactly. Only
    the first call counts: another one after it belongs to the arguments. A skill named `skill` is called by `/skill`,
    whatever follows.
    """
    literal = text.lstrip(_BLANKS)
    if not literal.startswith(_SIGNS):
        return None
    name, arguments = _cut(literal[1:])
    skill = _callable(name, catalog)
    if skill is None and literal[0] == "/" and name == _COMMAND:
        name, arguments = _cut(arguments)
        skill = _callable(name, catalog)
    return SkillCall(skill, arguments, arguments or literal) if skill is not None else None


def activation_of(call: SkillCall, recipient: Recipient = ANYBODY) -> str:
    """Return the text that hands the skill to a model, the same bytes as from the tool with these arguments."""
    values, _ = activation_inputs(call.skill, {FREE_ARGUMENT: call.arguments})
    return render_activation(call.skill, values, recipient)


def request_of(call: SkillCall) -> str:
    """Return the user's message that goes with the activation: binding context, or the literal without arguments."""
    return render_request(call.skill, call.arguments) if call.arguments else call.request.rstrip(_BLANKS)


def stack_activations(calls: Sequence[SkillCall], recipient: Recipient = ANYBODY) -> tuple[str, ...]:
    """Return the activations of one conversation in order, with a last text on which of several has the last word."""
    texts = tuple(activation_of(call, recipient) for call in calls)
    if len(calls) <= 1:
        return texts
    names = ", ".join(f"/{call.skill.key}" for call in calls)
    rule = "Each adds to those before it; where they differ, the later one overrides the earlier ones."
    return (*texts, f"Several skills are active, in this order: {names}. {rule}")


def _cut(text: str) -> tuple[str, str]:
    """Return a text up to its first blank, and what follows the blanks."""
    blank = _BLANK.search(text)
    return (text[: blank.start()], text[blank.end() :].lstrip(_BLANKS)) if blank else (text, "")


def _callable(name: str, catalog: Catalog) -> Skill | None:
    skill = catalog.get(name)
    return skill if skill is not None and skill.user_invocable else None
