"""Pin the skills of a recorded run by their digests, so that a continued run has the same instructions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.errors import InvalidRecordError, SkillsError
from skills_core.run.outcome import Origin
from skills_core.run.run_skills import Offer
from skills_core.run.skill_selection import Companion, select_skills

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skills_core.catalog import Catalog
    from skills_core.format.yaml12 import JsonValue
    from skills_core.run.ports import Journal
    from skills_core.run.skill_selection import SkillSelection
    from skills_core.skill import Skill

__all__ = [
    "PinnedSkillChangedError",
    "companions_from_json",
    "companions_to_json",
    "pinned_offers",
    "pinned_skill",
    "recorded_selection",
]


class PinnedSkillChangedError(SkillsError):
    """A skill is not as it was when the run began."""

    def __init__(self, key: str, pinned: object, digest: str | None) -> None:
        what = f"The skill {one_line(key)} has changed since the run began, from {pinned} to {digest}"
        super().__init__(f"{what}; begin a new run.")


def pinned_skill(catalog: Catalog, key: str, digest: object) -> Skill:
    """Return the active skill with this key, as it was pinned.

    Raises:
        UnknownSkillError: there is no such skill any more.
        PinnedSkillChangedError: it has another digest.
    """
    skill = catalog.skill(key)
    if skill.digest != digest:
        raise PinnedSkillChangedError(key, digest, skill.digest)
    return skill


def companions_to_json(companions: Iterable[Companion]) -> list[JsonValue]:
    """Encode the companions of a run for its record."""
    return [
        {
            "skill": each.skill.settings_key,
            "digest": each.skill.digest,
            "origin": each.origin.value,
            "included": each.included,
        }
        for each in companions
    ]


def companions_from_json(record: JsonValue, catalog: Catalog) -> tuple[Companion, ...]:
    """Return the recorded companions of a run.

    Raises:
        UnknownSkillError: one of them is not there any more.
        PinnedSkillChangedError: one of them has another digest.
        InvalidRecordError: the record is damaged.
    """
    companions: list[Companion] = []
    for each in record if isinstance(record, list) else [record]:
        match each:
            case {"skill": str(key), "digest": digest, "origin": str(origin), "included": bool(included)}:
                companions.append(Companion(pinned_skill(catalog, key, digest), Origin(origin), included))
            case _:
                raise InvalidRecordError("companions", "expected a list of skills")
    return tuple(companions)


def recorded_selection(skill: Skill, catalog: Catalog, companions: JsonValue) -> SkillSelection:
    """Return the skills of a run of `skill`, with its recorded companions.

    Raises:
        UnknownSkillError: a companion is not there any more.
        PinnedSkillChangedError: a companion has another digest.
        InvalidRecordError: the record is damaged.
    """
    return replace(select_skills(skill, catalog), companions=companions_from_json(companions, catalog))


async def pinned_offers(journal: Journal, selection: SkillSelection) -> dict[str, Offer]:
    """Return the skills that the model of a run may activate: those that `selection` offered when the run began."""

    async def work() -> JsonValue:
        return {skill.key: skill.digest for skill in selection.offered}

    recorded = await journal.step("skills", work)
    assert isinstance(recorded, dict)  # noqa: S101 - as work makes it
    offers: dict[str, Offer] = {}
    for key, digest in recorded.items():
        skill = selection.catalog.offer(key)
        unchanged = skill is not None and skill.digest == digest
        offers[key] = Offer(None if digest is None else str(digest), skill if unchanged else None)
    return offers
