"""The context of one message, for programs that put their prompts together themselves.

In this order: the section of skills that go with the message, then what was chosen for it (the skill that the user
called, or the search's hit, or a menu), then the message.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skills_core.context.blocks import prompt_block
from skills_core.context.calls import activation_of, match_skill_call, request_of
from skills_core.context.injection import MAX_INJECTED_CHARS
from skills_core.context.section import section_of
from skills_core.diagnostics import one_line
from skills_core.rendering.escaping import contained, contained_between_marks
from skills_core.rendering.recipient import ANYBODY, Recipient
from skills_core.selection.menu import MAX_MENU, menu_of
from skills_core.selection.ranking import ALL_THAT_MATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.catalog import Catalog
    from skills_core.context.calls import SkillCall
    from skills_core.context.rankings import Ranking
    from skills_core.context.section import Section
    from skills_core.context.triggers import Triggered
    from skills_core.selection.policy import Match
    from skills_core.skill import Skill

__all__ = ["AssembledContext", "ContextBounds", "assemble_context"]

logger = logging.getLogger(__name__)

MAX_DESCRIPTION = 300
# Characters of a description in a menu.


@dataclass(frozen=True, slots=True)
class ContextBounds:
    """Most characters of the section's entries together, and most code points of the hit's body."""

    section: int = 16_000
    injected: int = MAX_INJECTED_CHARS


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """What goes with a message. `texts` are to be sent in order, all as the user's; the last one holds the message.

    `always`, `triggered` and `left_out` are of the section. At most one of `call`, `selected` and `menu` is there.
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
        """All texts as one."""
        return "\n\n".join(self.texts)


_BOUNDS = ContextBounds()


def assemble_context(
    message: str, catalog: Catalog, ranking: Ranking, bounds: ContextBounds = _BOUNDS, recipient: Recipient = ANYBODY
) -> AssembledContext:
    """Return the context of a user's message; `ranking` ranks what the catalog offers to models.

    A message that calls a skill gets its activation, in a text of its own, instead of a search, as the `recipient` gets
    it. Where nothing goes with a message, it comes back as it is.
    """
    call = match_skill_call(message, catalog)
    offered = catalog.offered if call is None else [skill for skill in catalog.offered if skill is not call.skill]
    section = section_of(message, offered, bounds.section)
    for skill in section.skills:
        logger.debug("context: in the section %s %s", one_line(skill.key), skill.digest)
    context = AssembledContext((), section.always, section.triggered, section.left_out)
    before = [section.text] if section.text else []
    if call is not None:
        _tell("called", call.skill)
        texts = (*before, activation_of(call, recipient), request_of(call))
        return replace(context, texts=texts, call=call)
    selected, menu = _chosen(message, section, ranking)
    if selected is not None:
        _tell("selected", selected.skill, selected)
        before += [prompt_block(selected.skill, bounds.injected), *_about_rest(selected.skill, bounds.injected)]
    elif menu:
        before.append(_menu_text(menu))
    text = "\n\n".join([*before, _request(message)] if message.strip() else before) if before else message
    return replace(context, texts=(text,), selected=selected, menu=menu)


def _chosen(message: str, section: Section, ranking: Ranking) -> tuple[Match | None, tuple[Match, ...]]:
    """Return the hit, or the menu where several lie close together, of skills that are not in the section."""
    there = {id(skill) for skill in section.skills}
    policy = replace(ALL_THAT_MATCH, top_k=MAX_MENU + len(there))
    matches = [match for match in ranking(message, policy) if id(match.skill) not in there]
    best = matches[0].score if matches else 0.0
    # What is in the section already takes part in no comparison.
    matches = [replace(match, relative=match.score / best if best else 1.0) for match in matches]
    menu = menu_of(matches)
    for match in menu:
        _tell("on the menu", match.skill, match)
    hit = matches[0] if matches and not menu and not matches[0].weak else None
    return hit, menu


def _about_rest(skill: Skill, max_chars: int) -> list[str]:
    """Say how to get what the block does not hold: the rest of a long body, and the skill's files."""
    cut = len(contained_between_marks(skill.body)) > max_chars
    if not cut and len(skill.content.files) <= 1:
        return []
    rest = "Only the beginning of" if cut else "Only the text of"
    name = contained_between_marks(one_line(skill.key))
    return [f"{rest} the skill {name} stands above. Call activate_skill with its name for all of it."]


def _menu_text(menu: Sequence[Match]) -> str:
    lines = [f"- {one_line(match.skill.key)}: {_short(match.skill.description)}" for match in menu]
    head = "These skills fit the message about equally well:"
    rule = "Choose the one that fits and call activate_skill with its name, or let the user choose."
    return contained_between_marks("\n".join([head, *lines, rule]))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1].rstrip() + "…"


def _request(message: str) -> str:
    return (
        "The user's message is binding context for the skills above: where it says otherwise, it overrides them.\n"
        f"<user_request>\n{contained(message.strip())}\n</user_request>"
    )


def _tell(what: str, skill: Skill, match: Match | None = None) -> None:
    score = f" score {match.score:.6g}" if match else ""
    logger.info("context: %s %s %s%s", what, one_line(skill.key), skill.digest, score)
