"""Parse slash commands: `/name`, `/skill name`, `@name` and `$name` at the beginning of a message.

Source: Agenvoy's `MatchSkillCall`. The text after the name is the user's and stays as typed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.rendering import FREE_ARGUMENT, activation_inputs, render_activation, render_request
from skills_core.rendering.recipient import UNKNOWN_RECIPIENT, Recipient

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

    `arguments` is the text after the name, possibly empty. `request` is the rest of the message: the arguments, or
    without any the message itself, stripped on the left.
    """

    skill: Skill
    arguments: str
    request: str


def match_skill_call(text: str, catalog: Catalog) -> SkillCall | None:
    """Return the call at the beginning of `text`; None if there is none.

    The name extends to the next blank and must be the exact key or path of an active skill that users may invoke. Only
    the first call counts: another one after it is part of the arguments. `/skill` calls a skill named `skill` if there
    is one, whatever follows.
    """
    literal = text.lstrip(_BLANKS)
    if not literal.startswith(_SIGNS):
        return None
    name, arguments = _split_word(literal[1:])
    skill = _invocable_skill(name, catalog)
    if skill is None and literal[0] == "/" and name == _COMMAND:
        name, arguments = _split_word(arguments)
        skill = _invocable_skill(name, catalog)
    return SkillCall(skill, arguments, arguments or literal) if skill is not None else None


def activation_of(call: SkillCall, recipient: Recipient = UNKNOWN_RECIPIENT) -> str:
    """Return the skill's activation: the same bytes as from the tool with these arguments."""
    values, _ = activation_inputs(call.skill, {FREE_ARGUMENT: call.arguments})
    return render_activation(call.skill, values, recipient)


def request_of(call: SkillCall) -> str:
    """Return the user's message for the activation: binding context, or the message as typed if it has no arguments."""
    return render_request(call.skill, call.arguments) if call.arguments else call.request.rstrip(_BLANKS)


def stack_activations(calls: Sequence[SkillCall], recipient: Recipient = UNKNOWN_RECIPIENT) -> tuple[str, ...]:
    """Return the activations of one conversation in order, and after several a text on which of them prevails."""
    texts = tuple(activation_of(call, recipient) for call in calls)
    if len(calls) <= 1:
        return texts
    names = ", ".join(f"/{call.skill.key}" for call in calls)
    rule = "Each adds to those before it; where they differ, the later one overrides the earlier ones."
    return (*texts, f"Several skills are active, in this order: {names}. {rule}")


def _split_word(text: str) -> tuple[str, str]:
    """Split a text at its first blank; return the first word and the rest without leading blanks."""
    blank = _BLANK.search(text)
    return (text[: blank.start()], text[blank.end() :].lstrip(_BLANKS)) if blank else (text, "")


def _invocable_skill(name: str, catalog: Catalog) -> Skill | None:
    skill = catalog.get(name)
    return skill if skill is not None and skill.user_invocable else None
