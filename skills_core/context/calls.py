"""Parse slash commands: `/name`, `/skill name`, `@name` and `$name` at the beginning of a message.

Source: Agenvoy's `MatchSkillCall`; the `key=value` words after the name are JD.AI's. The rest is the user's text and
stays as typed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.rendering import (
    FREE_ARGUMENT,
    activation_inputs,
    parameters_of,
    render_activation,
    render_activations,
    render_request,
)
from skills_core.rendering.recipient import UNKNOWN_RECIPIENT, Recipient

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


_BLANKS = " \t\r\n"
_BLANK = re.compile(f"[{_BLANKS}]")
_SIGNS = ("/", "@", "$")
_COMMAND = "skill"

_ASSIGNMENT = re.compile(
    rf"""([A-Za-z_][A-Za-z0-9_-]*)=(?:"([^"\\]*(?:\\.[^"\\]*)*)"|'([^']*)'|([^"'{_BLANKS}][^{_BLANKS}]*))"""
    # A quoted value must end its word.
    rf"(?:[{_BLANKS}]+|\Z)",
    re.DOTALL,
)
_ESCAPED = re.compile(r'\\(["\\])')


@dataclass(frozen=True, slots=True)
class SkillCall:
    """A skill that a user called by name.

    `parameters` are the values of the skill's parameters that the message gives as `key=value`. `arguments` is the text
    after the name and these, possibly empty. `request` is the rest of the message: the arguments, or without any the
    message itself, stripped on the left.
    """

    skill: Skill
    arguments: str
    request: str
    parameters: Mapping[str, str] = field(default_factory=dict)


def match_skill_call(text: str, catalog: Catalog) -> SkillCall | None:
    r"""Return the call at the beginning of `text`; None if there is none.

    The name extends to the next blank and must be the exact key or path of an active skill that users may invoke. Only
    the first call counts: another one after it is part of the arguments. `/skill` calls a skill named `skill` if there
    is one, whatever follows.

    Words `key=value` right after the name fill the skill's `{{key}}`, up to the first word that is not of this form or
    whose key is not a parameter of the skill. A value with blanks stands in `"…"`, where `\"` and `\\` are a quote
    and a backslash, or in `'…'`, where every character stands for itself.
    """
    literal = text.lstrip(_BLANKS)
    if not literal.startswith(_SIGNS):
        return None
    name, arguments = _split_word(literal[1:])
    skill = _invocable_skill(name, catalog)
    if skill is None and literal[0] == "/" and name == _COMMAND:
        name, arguments = _split_word(arguments)
        skill = _invocable_skill(name, catalog)
    if skill is None:
        return None
    values, arguments = _assignments(arguments, frozenset(parameters_of(skill.body)) - {FREE_ARGUMENT})
    return SkillCall(skill, arguments, arguments or literal, values)


def activation_of(call: SkillCall, recipient: Recipient = UNKNOWN_RECIPIENT) -> str:
    """Return the skill's activation: the same bytes as from the tool with these arguments."""
    return render_activation(call.skill, _values_of(call), recipient)


def request_of(call: SkillCall) -> str:
    """Return the user's message for the activation: binding context, or the message as typed if it has no arguments."""
    return render_request(call.skill, call.arguments) if call.arguments else call.request.rstrip(_BLANKS)


def stack_activations(calls: Sequence[SkillCall], recipient: Recipient = UNKNOWN_RECIPIENT) -> tuple[str, ...]:
    """Return the activations of one conversation in order, and after several a text on which of them prevails."""
    return render_activations([(call.skill, _values_of(call)) for call in calls], recipient)


def _values_of(call: SkillCall) -> Mapping[str, str]:
    values, _ = activation_inputs(call.skill, {**call.parameters, FREE_ARGUMENT: call.arguments})
    return values


def _assignments(text: str, known: Container[str]) -> tuple[dict[str, str], str]:
    """Split the words `key=value` with `known` keys from the beginning of a text; return them and the rest."""
    values: dict[str, str] = {}
    end = 0
    while (match := _ASSIGNMENT.match(text, end)) is not None and match[1] in known:
        key, double, single, plain = match.groups()
        values[key] = _ESCAPED.sub(r"\1", double) if double is not None else single if single is not None else plain
        end = match.end()
    return values, text[end:]


def _split_word(text: str) -> tuple[str, str]:
    """Split a text at its first blank; return the first word and the rest without leading blanks."""
    blank = _BLANK.search(text)
    return (text[: blank.start()], text[blank.end() :].lstrip(_BLANKS)) if blank else (text, "")


def _invocable_skill(name: str, catalog: Catalog) -> Skill | None:
    skill = catalog.get(name)
    return skill if skill is not None and skill.user_invocable else None
