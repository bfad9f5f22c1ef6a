"""Assemble the context of one message, for programs that build their own prompts.

The order is: the section of always-on and triggered skills; then the called skill, the best match or a menu of matches;
then the message.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skills_core.context.calls import activation_of, match_skill_call, request_of
from skills_core.context.injection import MAX_INJECTED_CHARS, prompt_block
from skills_core.context.section import section_of
from skills_core.diagnostics import one_line
from skills_core.rendering.escaping import escape_tags, escape_tags_and_marks
from skills_core.rendering.recipient import UNKNOWN_RECIPIENT, Recipient
from skills_core.selection.policy import MAX_MENU, menu_of
from skills_core.selection.ranking import TOP_TEN
from skills_core.skills.withheld_files import files_for_models

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.catalog.catalog import Catalog
    from skills_core.context.calls import SkillCall
    from skills_core.context.injection import Ranking
    from skills_core.context.section import Section, Triggered
    from skills_core.selection.policy import Match, SelectionPolicy
    from skills_core.skills.skill import Skill


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
    message: str, section: Section, ranking: Ranking, choice: SelectionPolicy
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
