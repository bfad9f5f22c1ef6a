"""The entries of `prompts/list`: each skill that users may invoke, and the prompt `with_skills`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from server.wire.paging import Pager
from skills_core.diagnostics import printable
from skills_core.rendering.activation import FREE_ARGUMENT, parameters_of

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


WITH_SKILLS = "with_skills"
MESSAGE = "message"


def describe(skill: Skill) -> dict[str, Any] | None:
    """Return the entry of a skill, None if users may not invoke it."""
    if not skill.user_invocable:
        return None
    front = skill.frontmatter
    hint = front.argument_hint or front.hint
    free = {
        "name": FREE_ARGUMENT,
        "description": f"What to do with the skill, in your own words. {hint or ''}".strip(),
        "required": False,
    }
    named = [{"name": name, "required": False} for name in parameters_of(skill.body) if name != FREE_ARGUMENT]
    return {
        "name": printable(skill.key),
        "title": printable(skill.name),
        "description": skill.description,
        "arguments": [*named, free],
    }


def pager(catalog: Catalog, settings: Settings, envelope: Mapping[str, Any]) -> Pager[Skill | None]:
    """Return the pages of the list, sorted by name; None stands for the prompt `with_skills`."""
    items: list[tuple[str, Skill | None]] = [(skill.key, skill) for skill in catalog.active if skill.user_invocable]
    if offers_context(catalog):
        items.append((WITH_SKILLS, None))
    items.sort(key=lambda item: item[0])
    return Pager(items, settings.server.page_size, "prompts", _listed, envelope)


def offers_context(catalog: Catalog) -> bool:
    """Return whether `with_skills` is listed: there are skills to offer, and no skill has this name."""
    return bool(catalog.offered) and catalog.get(WITH_SKILLS) is None


def with_skills_prompt() -> dict[str, Any]:
    """Return the entry of the prompt in `prompts/list`.

    The other arguments of the tool `skill_context` work here too, but are not listed: clients ask the user for each
    argument that is listed, fill them with the words of the message one by one, or leave prompts with several out.
    """
    return {
        "name": WITH_SKILLS,
        "title": "With skills",
        "description": "Send a message together with the skills that apply to it.",
        "arguments": [{"name": MESSAGE, "description": "What you want to say.", "required": True}],
    }


def _listed(skill: Skill | None) -> dict[str, Any] | None:
    return with_skills_prompt() if skill is None else describe(skill)
