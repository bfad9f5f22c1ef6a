"""Assemble the context of one message, for programs that build their own prompts.

The order is: the section `<skills>`, with whole bodies of always-on and triggered skills within a budget; then the
called skill, the best match or a menu of matches; then the message.

A message calls a skill with `/name`, `/skill name`, `@name` or `$name` at its beginning. Source: Agenvoy's
`MatchSkillCall`; the `key=value` words after the name are JD.AI's. The rest is the user's text and stays as typed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from skills_core.context.injection import MAX_INJECTED_CHARS, prompt_block, section_entry
from skills_core.diagnostics import one_line
from skills_core.rendering.activation import (
    activation_inputs,
    render_activation,
    render_activations,
    render_request,
)
from skills_core.rendering.catalog import ACTIVATION_TOOL
from skills_core.rendering.escaping import escape_tags, escape_tags_and_marks
from skills_core.rendering.filling import FREE_ARGUMENT
from skills_core.rendering.recipient import UNKNOWN_RECIPIENT, Recipient
from skills_core.selection.fulltext import phrase
from skills_core.selection.policy import MAX_MENU, menu_of
from skills_core.selection.ranking import TOP_TEN
from skills_core.skills.withheld_files import files_for_models

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.context.injection import Ranking
    from skills_core.selection.policy import Match, SelectionPolicy
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
    values, arguments = _assignments(arguments, frozenset(skill.parameters) - {FREE_ARGUMENT})
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


MAX_NAMED = 20
# Maximum number of skills named that do not fit.


@dataclass(frozen=True, slots=True)
class Triggered:
    """A triggered skill, with those of its triggers that occur in the message."""

    skill: Skill
    triggers: tuple[str, ...]


def always_on(skill: Skill) -> bool:
    """Tell whether the skill applies to every message: trigger `*` or `metadata.jdai.always`, and no declared tools."""
    return skill.frontmatter.always_on and not skill.frontmatter.tools


def triggered_by(message: str, skills: Iterable[Skill]) -> tuple[Triggered, ...]:
    """Return those of `skills` with a trigger in `message`, in order; always-on skills are left out.

    A trigger occurs in a message if its words do, whole, adjacent and in order. Case, accents, hyphens and the width of
    gaps do not matter; other signs do.
    """
    said = phrase(message)
    words = frozenset(said.split())
    found: list[Triggered] = []
    for skill in skills:
        front = skill.frontmatter
        if front.triggers and not front.tools and not front.always_on:
            triggers = tuple(trigger for trigger in front.triggers if _occurs(trigger, said, words))
            if triggers:
                found.append(Triggered(skill, triggers))
    return tuple(found)


def _occurs(trigger: str, said: str, words: frozenset[str]) -> bool:
    asked = phrase(trigger)
    parts = asked.split()
    # Cheap test first: most triggers have a word that is not in the message, and searching a long message is slow.
    return bool(parts) and words.issuperset(parts) and asked in said


@dataclass(frozen=True, slots=True)
class SkillsSection:
    """The section's text, empty without skills, and its skills; those of `left_out` are only named in the text."""

    text: str
    always: tuple[Skill, ...]
    triggered: tuple[Triggered, ...]
    left_out: tuple[Skill, ...]

    @property
    def skills(self) -> tuple[Skill, ...]:
        """All skills of the section, including those that did not fit."""
        return (*self.always, *(each.skill for each in self.triggered))


def section_of(message: str, skills: Sequence[Skill], budget: int, tool: str = ACTIVATION_TOOL) -> SkillsSection:
    """Return the section for a message: always-on skills, then triggered ones, each in the order of `skills`.

    Entries are whole and have at most `budget` characters in total; an entry that does not fit is skipped, and the text
    says to load the skill with `tool`.
    """
    always = tuple(skill for skill in skills if always_on(skill))
    triggered = triggered_by(message, skills)
    entries: list[str] = []
    left_out: list[Skill] = []
    left = budget
    for skill in (*always, *(each.skill for each in triggered)):
        entry = section_entry(skill)
        if len(entry) > left:
            left_out.append(skill)
            continue
        left -= len(entry)
        entries.append(entry)
    lines = [*entries, *([left_out_note(left_out, tool=tool)] if left_out else [])]
    text = "\n".join(["<skills>", *lines, "</skills>"]) if lines else ""
    return SkillsSection(text, always, triggered, tuple(left_out))


def left_out_note(left_out: Sequence[Skill], *, loadable: bool = True, tool: str = ACTIVATION_TOOL) -> str:
    """Return the line that names skills whose texts do not fit.

    `loadable` tells that the model can activate them, with `tool`.
    """
    names = ", ".join(escape_tags_and_marks(one_line(skill.key)) for skill in left_out[:MAX_NAMED])
    more = f" and {len(left_out) - MAX_NAMED} more" if len(left_out) > MAX_NAMED else ""
    rule = (
        f"They apply as well, so call {tool} for each of them first."
        if loadable
        else "They apply as well, but cannot be loaded here: say so in the result where it matters."
    )
    return f"Too long to stand here: {names}{more}. {rule}"


logger = logging.getLogger(__name__)

MAX_DESCRIPTION = 300
# Maximum characters of a description in a menu.


DEFAULT_CHOICE = replace(TOP_TEN, top_k=MAX_MENU)
"""The policy for the best matches: any score, as many as a menu shows, all tags."""


@dataclass(frozen=True, slots=True)
class ContextBounds:
    """Maximum characters of all entries of the section, and maximum code points of the best match's body."""

    section: int = 16_000
    injected: int = MAX_INJECTED_CHARS


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """The context of a message. Send `texts` in order, all as the user's; the last one contains the message.

    `always`, `triggered` and `left_out` describe the section. At most one of `call`, `selected` and `menu` is set.
    """

    texts: tuple[str, ...]
    always: tuple[Skill, ...] = ()
    triggered: tuple[Triggered, ...] = ()
    left_out: tuple[Skill, ...] = ()
    call: SkillCall | None = None
    selected: Match | None = None
    menu: tuple[Match, ...] = ()

    @property
    def text(self) -> str:
        """All texts joined."""
        return "\n\n".join(self.texts)


_BOUNDS = ContextBounds()


def assemble_context(
    message: str,
    catalog: Catalog,
    ranking: Ranking,
    bounds: ContextBounds = _BOUNDS,
    recipient: Recipient = UNKNOWN_RECIPIENT,
    choice: SelectionPolicy = DEFAULT_CHOICE,
) -> AssembledContext:
    """Return the context of a user's message; `ranking` ranks the skills that the catalog offers to models.

    `choice` restricts the matches of the search, not the section and the called skill: with `top_k` 1, the best one is
    selected without a menu. Weak matches are left out whatever their score.
    A message that calls a skill gets the skill's activation, rendered for `recipient` in a text of its own, instead of
    a search. A message without any skill is returned unchanged.
    """
    call = match_skill_call(message, catalog)
    offered = catalog.offered if call is None else [skill for skill in catalog.offered if skill is not call.skill]
    section = section_of(message, offered, bounds.section, recipient.activation_tool)
    for skill in section.skills:
        logger.debug("context: in the section %s %s", one_line(skill.key), skill.digest)
    context = AssembledContext((), section.always, section.triggered, section.left_out)
    before = [section.text] if section.text else []
    if call is not None:
        _log_choice("called", call.skill)
        texts = (*before, activation_of(call, recipient), request_of(call))
        return replace(context, texts=texts, call=call)
    selected, menu = _choose(message, section, ranking, choice)
    if selected is not None:
        _log_choice("selected", selected.skill, selected)
        before += [
            prompt_block(selected.skill, bounds.injected),
            *_truncation_note(selected.skill, bounds.injected, recipient),
        ]
    elif menu:
        before.append(_menu_text(menu, recipient))
    text = "\n\n".join([*before, _user_request(message)] if message.strip() else before) if before else message
    return replace(context, texts=(text,), selected=selected, menu=menu)


def _choose(
    message: str, section: SkillsSection, ranking: Ranking, choice: SelectionPolicy
) -> tuple[Match | None, tuple[Match, ...]]:
    """Return the best match, or a menu if several are close, among skills that are not in the section."""
    there = {id(skill) for skill in section.skills}
    policy = replace(choice, top_k=choice.top_k + len(there))
    matches = [match for match in ranking(message, policy) if id(match.skill) not in there][: choice.top_k]
    best = matches[0].score if matches else 0.0
    # Recomputed without the skills of the section, which take no part in the comparison.
    matches = [replace(match, relative=match.score / best if best else 1.0) for match in matches]
    menu = menu_of(matches)
    for match in menu:
        _log_choice("on the menu", match.skill, match)
    hit = matches[0] if matches and not menu and not matches[0].weak else None
    return hit, menu


def _truncation_note(skill: Skill, max_chars: int, recipient: Recipient) -> list[str]:
    """Tell how to get what the block does not contain: the rest of a long body, and the skill's files."""
    cut = len(escape_tags_and_marks(skill.body)) > max_chars
    if not cut and len(files_for_models(skill.content)) <= 1:
        return []
    rest = "Only the beginning of" if cut else "Only the text of"
    name = escape_tags_and_marks(one_line(skill.key))
    tool = recipient.activation_tool
    return [f"{rest} the skill {name} stands above. Call {tool} with its name for all of it."]


def _menu_text(menu: Sequence[Match], recipient: Recipient) -> str:
    lines = [f"- {one_line(match.skill.key)}: {_short(match.skill.description)}" for match in menu]
    head = "These skills fit the message about equally well:"
    rule = f"Choose the one that fits and call {recipient.activation_tool} with its name, or let the user choose."
    return escape_tags_and_marks("\n".join([head, *lines, rule]))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1].rstrip() + "…"


def _user_request(message: str) -> str:
    return (
        "The user's message is binding context for the skills above: where it says otherwise, it overrides them.\n"
        f"<user_request>\n{escape_tags(message.strip())}\n</user_request>"
    )


def _log_choice(what: str, skill: Skill, match: Match | None = None) -> None:
    score = f" score {match.score:.6g}" if match else ""
    logger.info("context: %s %s %s%s", what, one_line(skill.key), skill.digest, score)
