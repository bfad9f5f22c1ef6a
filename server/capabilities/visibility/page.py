"""The panel `What clients show` of a skill's page: how the skill appears in each client, and what clashes with it.

The texts of all clients are read once for each catalog of a view. What one skill is in them is looked up for each
request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from server.capabilities.visibility.clashes import NameClashKind, name_clashes, rivals_of
from server.capabilities.visibility.served_listing import (
    ClientSight,
    EntryState,
    Obstacle,
    SeenTexts,
    ServedSkill,
    Sight,
)
from server.capability import PageParts, SkillPanel
from server.clients.known import KNOWN_CLIENTS
from server.hosting.views import PerView
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.capabilities.visibility.clashes import NameClash
    from server.capability import Visit
    from server.hosting.views import View
    from skills_core.skills.skill import Skill

_FIRST: Final = ("claude-code", "claude-desktop", "chatgpt", "codex", "copilot-cli", "cursor", "gemini", "vscode")
"""The clients that are shown at once; most people who look at the page use one of them."""

_BECAUSE: Final[Mapping[Obstacle, str]] = {
    Obstacle.BEYOND_BUDGET: "there is no room for it in {budget:,} characters of descriptions; find_skills finds it",
    Obstacle.CUT_ENTRY: "the client cuts the text there",
    Obstacle.DEFERRED: "the client loads tools only when its model searches for them",
    Obstacle.LONG_ANSWER: "the client shows too little of what its search for tools finds",
    Obstacle.REFUSED_NAME: "the client refuses the name, which is not in the schema of activate_skill",
    Obstacle.NOT_FOR_MODELS: "the skill is for users only",
}
# A name that is not in the schema but accepted hinders nobody; prompts have a column of their own.

_SIGHTS: Final[Mapping[Sight | None, tuple[str, str]]] = {
    None: ("none", "not for models"),
    Sight.DESCRIBED: ("good", "described"),
    Sight.NAMED: ("mixed", "named only"),
    Sight.TOOL_SEARCH: ("none", "after a search for tools"),
    Sight.FIND_SKILLS: ("bad", "hidden"),
}

_CLASHES: Final[Mapping[NameClashKind, str]] = {
    NameClashKind.SHADOWED: "Several sources have this name; one of them is served.",
    NameClashKind.SHARED: "Several skills have this name, so they are served under their paths.",
    NameClashKind.ALIKE: "The names differ only by case, separators or a plural.",
}
_MAX_SHOWN: Final = 10


class Appearance(NamedTuple):
    """How a skill appears in a client: a badge of a kind with words, why so, and whether it is a command for users."""

    client: str
    kind: str
    words: str
    reasons: tuple[str, ...]
    command: str


class NamedClash(NamedTuple):
    """What a skill's name clashes with: other skills, or commands of clients."""

    words: str
    skills: tuple[Skill, ...]


class Rival(NamedTuple):
    """A skill that a search for the description of another one finds too, with the share of its score."""

    skill: Skill
    share: float


@dataclass(frozen=True, slots=True)
class _Derived:
    """What is the same for all skills of a view: what each client sees, and the clashes of names by place of skill."""

    sights: Mapping[str, ClientSight]
    clashes: Mapping[int, tuple[NameClash, ...]]


def page_parts() -> PageParts:
    """Return the panel, with what it keeps for its views."""
    derived = PerView(_derive)

    def show(skill: Skill, visit: Visit) -> Mapping[str, Any] | None:
        return panel_values(skill, visit.view, derived) if skill.state is State.ACTIVE else None

    return PageParts(panels=(SkillPanel("visibility", "What clients show", "visibility/visibility.html", show),))


def _derive(view: View) -> _Derived:
    snapshot, seen = view.apart(), SeenTexts(view.catalog)
    sights = {client.key: ClientSight(snapshot, client.of_version(None), seen) for client in KNOWN_CLIENTS}
    clashes: dict[int, list[NameClash]] = defaultdict(list)
    for clash in name_clashes(view.catalog, KNOWN_CLIENTS):
        for skill in clash.skills:
            clashes[id(skill)].append(clash)
    return _Derived(sights, {number: tuple(found) for number, found in clashes.items()})


def panel_values(skill: Skill, view: View, derived: PerView[_Derived]) -> Mapping[str, Any]:
    """Return the values for the template: the clients that most people use, the others, and what clashes."""
    known = derived.of(view)
    ordered = [*(key for key in _FIRST if key in known.sights), *(key for key in known.sights if key not in _FIRST)]
    shown = [_appearance(known.sights[key], skill) for key in ordered]
    first = sum(key in _FIRST for key in ordered)
    rivals = rivals_of(skill, view) if skill.model_invocable else ()
    return {
        "first": shown[:first],
        "others": shown[first:],
        "clashes": [_named(clash, skill) for clash in known.clashes.get(id(skill), ())],
        "rivals": [Rival(*each) for each in rivals],
    }


def _appearance(sight: ClientSight, skill: Skill) -> Appearance:
    served = sight.served(skill)
    kind, words = _words(served)
    reasons = [_BECAUSE[each].format(budget=sight.budget) for each in served.obstacles if each in _BECAUSE]
    if served.sight in {Sight.NAMED, Sight.TOOL_SEARCH} and served.entry is EntryState.SHORTENED:
        reasons.append(f"then it sees a description shortened to {served.characters:,} characters")
    command = {True: "yes", False: "no", None: "not known"}[served.prompt]
    return Appearance(sight.client.title, kind, words, tuple(reasons), command)


def _words(served: ServedSkill) -> tuple[str, str]:
    """Return the kind of a badge and its words."""
    if served.sight is Sight.DESCRIBED and served.entry is EntryState.SHORTENED:
        return "mixed", f"shortened to {served.characters:,} characters"
    if served.sight is Sight.NAMED and served.entry is EntryState.CUT:
        return "mixed", f"cut after {served.characters:,} characters"
    return _SIGHTS[served.sight]


def _named(clash: NameClash, skill: Skill) -> NamedClash:
    if clash.kind is NameClashKind.COMMAND:
        clients = ", ".join(client.title for client in clash.clients)
        return NamedClash(f"{clients}: has a command of this name.", ())
    return NamedClash(_CLASHES[clash.kind], tuple(_others(clash, skill))[:_MAX_SHOWN])


def _others(clash: NameClash, skill: Skill) -> Iterator[Skill]:
    return (each for each in clash.skills if each is not skill)
