"""The entries of `prompts/list`: each skill that users may invoke, the prompt `with_skills`, and added prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from server.capability import PromptSource
from server.wire.paging import Pager
from skills_core.diagnostics import printable
from skills_core.rendering.filling import FREE_ARGUMENT, word_placeholders

if TYPE_CHECKING:
    from server.capability import ServerPart
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


WITH_SKILLS = "with_skills"
MESSAGE = "message"

FURTHER_WORDS = tuple(map(str, range(1, 10)))
"""Arguments for the words after the first, for clients that give each argument one word."""


def describe(skill: Skill) -> dict[str, Any] | None:
    """Return the entry of a skill, None if users may not invoke it."""
    if not skill.user_invocable:
        return None
    front = skill.frontmatter
    free = _free_argument("skill", front.argument_hint or front.hint or "")
    named = [{"name": name, "required": False} for name in skill.parameters if name != FREE_ARGUMENT]
    return {
        "name": printable(skill.key),
        "title": printable(skill.name),
        "description": skill.description,
        "arguments": [*named, free],
    }


def _free_argument(what: str, hint: str = "") -> dict[str, Any]:
    described = f"What to do with the {what}, in your own words. {hint}".strip()
    return {"name": FREE_ARGUMENT, "description": described, "required": False}


def with_words_required(page: dict[str, Any]) -> dict[str, Any]:
    """Return a page in which the argument for the user's own words is required; they may be empty all the same."""

    def required(argument: dict[str, Any]) -> dict[str, Any]:
        return {**argument, "required": True} if argument["name"] == FREE_ARGUMENT else argument

    prompts = [{**entry, "arguments": list(map(required, entry["arguments"]))} for entry in page["prompts"]]
    return {**page, "prompts": prompts}


def with_words_alone(page: dict[str, Any]) -> dict[str, Any]:
    """Return a page in which prompts have no other argument than the one for the user's own words."""

    def alone(arguments: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [each for each in arguments if each["name"] == FREE_ARGUMENT] or arguments

    return {**page, "prompts": [{**entry, "arguments": alone(entry["arguments"])} for entry in page["prompts"]]}


def with_words_apart(page: dict[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return a page with an argument for each of the first ten words, where a server has to know the words.

    That is for skills with placeholders for words, and for `with_skills`, whose message is searched for skills.
    """

    def apart(entry: dict[str, Any]) -> dict[str, Any]:
        skill = catalog.get(entry["name"])
        takes_words = entry["name"] == WITH_SKILLS if skill is None else bool(word_placeholders(skill))
        if not takes_words:
            return entry
        further = [{"name": name, "description": f"Word {int(name) + 1}.", "required": False} for name in FURTHER_WORDS]
        return {**entry, "arguments": [*entry["arguments"], *further]}

    return {**page, "prompts": list(map(apart, page["prompts"]))}


def names_apart(skill: Skill) -> tuple[str, ...]:
    """Return the names of the arguments that `with_words_apart` lists for a skill, in order."""
    named = [name for name in skill.parameters if name != FREE_ARGUMENT]
    return (*named, FREE_ARGUMENT, *(FURTHER_WORDS if word_placeholders(skill) else ()))


def pager(catalog: Catalog, settings: Settings, envelope: Mapping[str, Any]) -> Pager[Skill | None]:
    """Return the pages of the list, sorted by name; None stands for the prompt `with_skills`."""
    added = [(WITH_SKILLS, None)] if offers_context(catalog) else []

    def items_after(last: str | None) -> Iterator[tuple[str, Skill | None]]:
        skills = ((skill.key, skill) for skill in catalog.by_key(last) if skill.user_invocable)
        items = merge(skills, added, key=itemgetter(0))
        return (item for item in items if last is None or item[0] > last)

    return Pager(items_after, settings.server.page_size, "prompts", _listed, envelope)


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


def prompt_sources(parts: Iterable[ServerPart]) -> list[PromptSource]:
    """Return the parts of a server that add prompts which are not skills."""
    return [part for part in parts if isinstance(part, PromptSource) and part.offers_prompts]


def with_added_prompts(page: dict[str, Any], catalog: Catalog, sources: Iterable[PromptSource]) -> dict[str, Any]:
    """Return the first page of `prompts/list` with the prompts of `sources` at its end; this may read the disk.

    Many clients ask for one page only. A skill that has the name of such a prompt takes its place.
    """
    entries = [{**each, "arguments": [_free_argument("task")]} for source in sources for each in source.entries()]
    if not entries:
        return page
    return {**page, "prompts": [*page["prompts"], *(each for each in entries if catalog.get(each["name"]) is None)]}


def added_prompt_source(name: str, catalog: Catalog, sources: Iterable[PromptSource]) -> PromptSource | None:
    """Return the source that may have the prompt of a name, None if there is none or if a skill has the name."""
    found = (source for source in sources if source.may_have(name))
    return None if catalog.get(name) is not None else next(found, None)
