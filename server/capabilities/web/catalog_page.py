"""The list of skills: which ones a visitor asked for, a page of them at a time, and how many there are of each state.

A search while typing finds the skills whose texts have all its words. Where none has, the skills are shown that a model
would find with `find_skills`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from server.hosting.views import PerView
from server.html.paging import Paged, page_number, paged
from skills_core.selection.policy import SelectionPolicy
from skills_core.selection.twins import heads
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.hosting.views import View
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill

PAGE_SIZE: Final = 100
"""Skills on one page of the list, where alike ones have one place."""

MAX_WORDS: Final = 200
"""Characters of a search that are used."""

_SIMILAR: Final = SelectionPolicy(top_k=20)
_DIGITS: Final = 10
_MARK: Final = "~"
# Behind the key of a skill that is not served, whose key another skill may have as well.


class Order(StrEnum):
    """How the list is ordered."""

    NAME = "name"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class CatalogChoice:
    """What a visitor asked for: words, a state, whether to list only skills with diagnostics, an order, and a page."""

    words: str = ""
    state: State | None = None
    faulty: bool = False
    order: Order = Order.NAME
    page: int = 1

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> CatalogChoice:
        """Return the choice in the parameters of an address; what cannot be read is left out."""
        return cls(
            words=query.get("q", "")[:MAX_WORDS].strip(),
            state=next((each for each in State if each.value == query.get("state")), None),
            faulty=query.get("faulty") == "yes",
            order=next((each for each in Order if each.value == query.get("order")), Order.NAME),
            page=page_number(query),
        )

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of an address with this choice, without the page."""
        values = {
            "q": self.words,
            "state": self.state.value if self.state else "",
            "faulty": "yes" if self.faulty else "",
            "order": "" if self.order is Order.NAME else self.order.value,
        }
        return {name: value for name, value in values.items() if value}


class FoundSkills(NamedTuple):
    """The skills that were found, a page of them.

    `total` counts all that were found. Where they exceed a page, one of those that are alike stands for all: `alike`
    has the others by its path. `states` counts all skills of the view by state, `faulty` those with diagnostics.
    `similar` tells that no skill has the words, and that these are what `find_skills` returns.
    """

    page: Paged[Skill]
    total: int
    alike: Mapping[str, Sequence[Skill]]
    states: Mapping[State, int]
    faulty: int
    similar: bool = False


def skill_address(skill: Skill) -> str:
    """Return the address of a skill's page."""
    key = skill.key if skill.state is State.ACTIVE else f"{skill.key}{_MARK}{_place_digest(skill)}"
    return f"/page/skill/{quote(key.encode('utf-8', 'surrogateescape'), safe='/~')}"


def skill_at(catalog: Catalog, key: str) -> Skill | None:
    """Return the skill that an address of `skill_address` names, None if the catalog has none."""
    found = catalog.get(key)
    if found is not None and found.key == key:
        return found
    digest = key.rpartition(_MARK)[2]
    if len(digest) != _DIGITS:
        return None
    idle = (skill for skill in catalog.skills if skill.state is not State.ACTIVE)
    return next((skill for skill in idle if key == f"{skill.key}{_MARK}{_place_digest(skill)}"), None)


def _place_digest(skill: Skill) -> str:
    place = f"{skill.source.root}\0{skill.content.place}".encode("utf-8", "surrogateescape")
    return sha256(place).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What is made of a catalog once: the searched text of each skill, and the counts of the filters."""

    catalog: Catalog
    texts: Sequence[str]
    states: Mapping[State, int]
    faulty: frozenset[int]

    @classmethod
    def of(cls, view: View) -> _Prepared:
        catalog, skills = view.catalog, view.catalog.skills
        faulty = frozenset(number for number, skill in enumerate(skills) if skill.diagnostics)
        return cls(catalog, [*map(_searched_text, skills)], Counter(skill.state for skill in skills), faulty)

    def chosen(self, choice: CatalogChoice) -> list[Skill]:
        """Return the skills that fit a choice, those first whose name begins with its words."""
        skills, words = self.catalog.skills, choice.words.casefold().split()
        numbers: Sequence[int] = sorted(self.faulty) if choice.faulty else range(len(skills))
        for word in words:
            numbers = [number for number in numbers if word in self.texts[number]]
        found = [skills[number] for number in numbers]
        if choice.state is not None:
            found = [skill for skill in found if skill.state is choice.state]
        if choice.order is Order.CHANGED:
            found.sort(key=lambda skill: -(skill.last_modified or 0))
        elif words:
            begin = "-".join(words)
            found.sort(key=lambda skill: (not skill.name.casefold().startswith(begin), words[0] not in skill.name))
        return found


class SkillList:
    """Finds skills in the views of one server."""

    def __init__(self) -> None:
        """Prepare nothing yet."""
        self._prepared = PerView(_Prepared.of)

    def find(self, view: View, choice: CatalogChoice) -> FoundSkills:
        """Return what was asked for. It may take long, so run it in a worker thread."""
        prepared = self._prepared.of(view)
        chosen = prepared.chosen(choice)
        similar: list[Skill] = []
        if not chosen and choice.words and not choice.faulty and choice.state in {None, State.ACTIVE}:
            chosen = similar = [match.skill for match in view.search(choice.words, _SIMILAR)]
        total = len(chosen)
        alike: Mapping[str, Sequence[Skill]] = {}
        if total > PAGE_SIZE:
            alike = view.alike_among(chosen)
            chosen = heads(chosen, alike)
        return FoundSkills(
            page=paged(chosen, PAGE_SIZE, choice.page, "/", choice.query),
            total=total,
            alike=alike,
            states=prepared.states,
            faulty=len(prepared.faulty),
            similar=bool(similar),
        )


def _searched_text(skill: Skill) -> str:
    return "\n".join((skill.key, skill.name, skill.description, *skill.frontmatter.tags)).casefold()
