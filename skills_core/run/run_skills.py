"""The skills of one run while it goes on: those whose instructions the model has, and those that it may activate."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skills_core.run.outcome import ActivatedSkill, Origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skills_core.run.skill_selection import Companion
    from skills_core.skill import Skill

__all__ = ["MAX_ACTIVATIONS", "Offer", "RunSkills"]

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
            ActivatedSkill(key, skill.digest, self._origins.get(key, Origin.CALLED))
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
