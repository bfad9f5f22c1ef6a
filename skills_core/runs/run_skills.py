"""The skills of a run: selected when it begins, loaded and activated while it goes on.

Companions of the performed skill are the skills that are always on and those that others require. Skills that only
users may invoke are never selected, because a model would read their instructions.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, deque
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from skills_core.context.assembly import always_on
from skills_core.diagnostics import one_line
from skills_core.rendering.activation import render_activation
from skills_core.runs.outcome import ActivatedSkill, ActivationOrigin

if TYPE_CHECKING:
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill

logger = logging.getLogger(__name__)

MAX_COMPANION_CHARACTERS: Final = 64_000
"""Most characters of the texts of all companions, which are part of each request to the model."""

MAX_COMPANIONS: Final = 200
"""Most companions of a run, including those whose texts do not fit."""

MAX_OFFERED: Final = 200
"""Most skills that the model of a run may activate."""


_WORD = re.compile(r"[\w/-]+")


@dataclass(frozen=True, slots=True)
class Companion:
    """A skill that goes with the performed one; the text of one that is not `included` does not fit."""

    skill: Skill
    origin: ActivationOrigin
    included: bool = True


@dataclass(frozen=True, slots=True)
class SkillSelection:
    """The companions of a performed skill, and the skills that its model may activate, from one catalog."""

    catalog: Catalog
    companions: tuple[Companion, ...] = ()
    offered: tuple[Skill, ...] = ()

    @property
    def skills(self) -> tuple[Skill, ...]:
        """All of them, each once."""
        every = (*(each.skill for each in self.companions), *self.offered)
        return tuple({skill.path: skill for skill in every}.values())


def select_skills(skill: Skill, catalog: Catalog) -> SkillSelection:
    """Return the skills of a run of `skill` for a caller who sees `catalog`.

    The companions are in the order of their texts: always-on skills as in the catalog, then required skills, each after
    those that it requires. Where not all fit, required skills have priority, the nearest to `skill` first.
    """
    distances = _distances(skill, catalog)

    def priority(companion: Companion) -> tuple[bool, float]:
        return companion.origin is not ActivationOrigin.REQUIRED, distances.get(companion.skill.path, inf)

    found = _companions(skill, catalog)
    if len(found) > MAX_COMPANIONS:
        logger.warning("a run of %s leaves out %d companions", one_line(skill.key), len(found) - MAX_COMPANIONS)
        kept = {each.skill.path for each in sorted(found, key=priority)[:MAX_COMPANIONS]}
        found = [each for each in found if each.skill.path in kept]
    room, fitting = MAX_COMPANION_CHARACTERS, set[str]()
    for each in sorted(found, key=priority):
        # An activation is at least as long as the body, and rendering a long one takes a while.
        size = len(render_activation(each.skill)) if each.skill.body_length <= room else inf
        if size <= room:
            room -= int(size)
            fitting.add(each.skill.path)
    companions = tuple(Companion(each.skill, each.origin, each.skill.path in fitting) for each in found)
    return SkillSelection(catalog, companions, _offered(skill, companions, catalog))


def _distances(skill: Skill, catalog: Catalog) -> dict[str, float]:
    """Return how many steps lead from `skill` to each skill that it requires, by path."""
    distances: dict[str, float] = {skill.path: 0}
    waiting = deque([skill])
    while waiting:
        current = waiting.popleft()
        for each in _required(current, catalog):
            if each.path not in distances:
                distances[each.path] = distances[current.path] + 1
                waiting.append(each)
    return distances


def _companions(skill: Skill, catalog: Catalog) -> list[Companion]:
    required = [*_requirements(skill, catalog, ())]
    always = {each.path for each in catalog.offered if always_on(each)} - {each.path for each in required}
    ordered = {skill.path: skill}
    for each in catalog.offered:
        if each.path in always and each.path not in ordered:
            ordered |= {one.path: one for one in [*_requirements(each, catalog, ordered), each]}
    ordered |= {each.path: each for each in required if each.path not in ordered}
    del ordered[skill.path]
    return [
        Companion(each, ActivationOrigin.ALWAYS_ON if path in always else ActivationOrigin.REQUIRED)
        for path, each in ordered.items()
    ]


def _requirements(skill: Skill, catalog: Catalog, known: Container[str]) -> Iterator[Skill]:
    """Yield the skills that `skill` requires, directly or through others, each once and after those that it requires.

    Skills with a path in `known` are left out, with what they require. A chain may have any length, so this does not
    recurse.
    """
    seen = {skill.path}
    waiting = [(skill, iter(_required(skill, catalog)))]
    while waiting:
        current, rest = waiting[-1]
        required = next(rest, None)
        if required is None:
            waiting.pop()
            if current is not skill:
                yield current
        elif required.path not in seen and required.path not in known:
            seen.add(required.path)
            waiting.append((required, iter(_required(required, catalog))))


def _required(skill: Skill, catalog: Catalog) -> list[Skill]:
    """Return the active skills that `skill` names in `requires`, without those that only users may invoke."""
    found = [each for name in skill.frontmatter.requires if (each := catalog.provider(name)) is not None]
    for each in found:
        if not each.model_invocable:
            about = (one_line(each.key), one_line(skill.key))
            logger.info("the skill %s, which %s requires, is not part of a run: only users may invoke it", *about)
    return [each for each in found if each.model_invocable]


def _offered(skill: Skill, companions: Sequence[Companion], catalog: Catalog) -> tuple[Skill, ...]:
    """Return the skills that the model may activate.

    If there are too many, companions that do not fit come first, then skills that the included texts mention.
    """
    included = {skill.path, *(each.skill.path for each in companions if each.included)}
    others = [each for each in catalog.offered if each.path not in included]
    if len(others) > MAX_OFFERED:
        too_long = {each.skill.path for each in companions if not each.included}
        texts = [skill.body, *(each.skill.body for each in companions if each.included)]
        words = {word for text in texts for word in _WORD.findall(text)}
        others.sort(key=lambda each: (each.path not in too_long, each.key not in words))
        about = (len(others) - MAX_OFFERED, len(others), one_line(skill.key))
        logger.info("%d of %d other skills cannot be activated in a run of %s", *about)
    return tuple(others[:MAX_OFFERED])


MAX_ACTIVATIONS: Final = 20
"""Most texts of skills that the model of one run receives by activation."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A skill that the model may activate, pinned by its digest; `skill` is None if it has changed since."""

    digest: str | None
    skill: Skill | None


class RunSkills:
    """The performed skill, its companions, and the skills that the model has activated."""

    def __init__(
        self, performed: Skill, companions: Sequence[Companion] = (), offers: Mapping[str, Offer] | None = None
    ) -> None:
        """Begin before the first activation; `offers` are by key."""
        self.performed = performed
        self.companions = tuple(companions)
        self.offers = dict(offers or {})
        self._loaded = {each.skill.key: each.skill for each in self.companions if each.included}
        self._origins = {each.skill.key: each.origin for each in self.companions}
        self._values: dict[str, Mapping[str, str]] = {}
        self._texts = 0
        offered = [(key, offer.skill) for key, offer in self.offers.items() if offer.skill is not None]
        keyed = [(skill.key, skill) for skill in self.loaded] + offered
        self._keys = _keys_by_name(keyed)
        self._keys_by_path = {skill.path: key for key, skill in keyed}

    @property
    def loaded(self) -> tuple[Skill, ...]:
        """The skills whose instructions the model has, the performed one first."""
        return (self.performed, *self._loaded.values())

    @property
    def others(self) -> tuple[Skill, ...]:
        """The skills that are loaded besides the performed one, and those that may be."""
        offered = (offer.skill for offer in self.offers.values())
        return (*self._loaded.values(), *(skill for skill in offered if skill is not None))

    @property
    def activated(self) -> tuple[ActivatedSkill, ...]:
        """The loaded skills besides the performed one, as outcomes and traces report them."""
        return tuple(
            ActivatedSkill(key, skill.digest, self._origins.get(key, ActivationOrigin.CALLED))
            for key, skill in self._loaded.items()
        )

    @property
    def exhausted(self) -> bool:
        """Whether the model may activate no more skills."""
        return self._texts >= MAX_ACTIVATIONS

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which the model may activate skills: offered keys, loaded ones, then other names."""
        keys = (*self.offers, self.performed.key, *self._loaded)
        return tuple(dict.fromkeys([*keys, *self._keys]))

    def key_of(self, name: str) -> str:
        """Return the key of the skill that a name, a path or a `skillKey` means; other texts are returned as they are.

        In a run that is continued, the key of an offer may be one that the skill had when the run began: a skill's key
        is its path only while another skill has its name.
        """
        return name if name in self.offers else self._keys.get(name) or self._keys_by_path.get(name, name)

    def find(self, name: str) -> Skill | None:
        """Return the loaded skill that a name means."""
        key = self.key_of(name)
        return self.performed if key == self.performed.key else self._loaded.get(key)

    def has_text(self, key: str, values: Mapping[str, str]) -> bool:
        """Tell whether the model has the skill's text with these values; the performed skill takes no others."""
        return key == self.performed.key or (key in self._loaded and dict(values) == self._values.get(key, {}))

    def activate(self, key: str, values: Mapping[str, str]) -> bool:
        """Note that the model has received a skill's text; return whether the skill is as it was when the run began.

        In a run that is continued, the model may have received instructions that have changed since.
        """
        if self.has_text(key, values):
            return True
        if key not in self._loaded:
            offer = self.offers.get(key)
            if offer is None or offer.skill is None:
                return False
            self._loaded[key] = offer.skill
        self._values[key] = dict(values)
        self._texts += 1
        return True


def _keys_by_name(keyed: Sequence[tuple[str, Skill]]) -> dict[str, str]:
    """Return the key for each name or `skillKey` that only one of the skills has, and for each key."""
    counts = Counter(name for key, skill in keyed for name in {*skill.content.names, skill.key} - {key})
    keys = {name: key for key, skill in keyed for name in (*skill.content.names, skill.key) if counts[name] == 1}
    return keys | {key: key for key, _ in keyed}
