"""Decide on skills: which of them has a name, and whether it is served.

The steps, in this order: validity, trust, conflicts over names, review, the user's choice and gates, requirements.
A skill of an untrusted project competes for no name, and a gate that excludes the winner of a name does not free it.
Pure; `catalog.builder` applies the steps to everything that was loaded, or to what changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skills_core.catalog.conflicts import Candidate, place_on_disk
from skills_core.diagnostics import Reason, printable
from skills_core.disk.sources import Scope
from skills_core.skills.choice import chooses
from skills_core.skills.gates import Environment, Exclusion, evaluate_gate, primary_credential
from skills_core.skills.requirements import Requiring, unmet_requirements
from skills_core.skills.skill import Skill, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skills_core.catalog.conflicts import Settlement
    from skills_core.diagnostics import Diagnostic
    from skills_core.disk.sources import Source
    from skills_core.loading.discovery import LoadedSource
    from skills_core.skills.skill import SkillContent

__all__ = ["Decider", "Standing", "apply_requirements", "is_trusted", "standing_of"]


class Standing(NamedTuple):
    """The state of a skill, and for a skill that is not active the reason."""

    state: State
    reason: Reason | None = None
    detail: str = ""


ACTIVE = Standing(State.ACTIVE)


class Decider:
    """Decides on the skills of `sources`, which are in order of precedence, in one environment."""

    def __init__(self, sources: Sequence[LoadedSource], environment: Environment) -> None:
        """Ask once for each source whether it is trusted."""
        self._sources = sources
        self._environment = environment
        self.trusted = tuple(is_trusted(loaded.source, environment) for loaded in sources)

    def candidates(self) -> Iterator[Candidate]:
        """Yield a candidate for everything that was loaded."""
        for rank, loaded in enumerate(self._sources):
            for content in loaded.contents.values():
                yield Candidate(rank, loaded.source, content)

    def competes(self, candidate: Candidate) -> bool:
        """Tell whether a candidate takes part in conflicts over names."""
        return candidate.content.instructions.fault is None and self.trusted[candidate.rank]

    def standing(self, candidate: Candidate, settlement: Settlement) -> Standing:
        """Return the standing of a candidate before requirements."""
        content, source = candidate.content, candidate.source
        instructions = content.instructions
        if (fault := instructions.fault) is not None:
            detail = next((each.message for each in instructions.diagnostics if each.code is fault), "")
            return Standing(State.INVALID, fault, detail)
        if not self.trusted[candidate.rank]:
            return Standing(State.EXCLUDED, Reason.UNTRUSTED, _untrusted(printable(str(source.project))))
        winner = settlement.shadowing.get(candidate.position)
        if winner is not None:
            rank, place = winner
            return Standing(
                State.SHADOWED, Reason.SHADOWED, f"shadowed by {place_on_disk(self._sources[rank].source, place)}"
            )
        exclusion = self._exclusion_of(content, source, settlement)
        return Standing(State.EXCLUDED, exclusion.reason, exclusion.detail) if exclusion else ACTIVE

    def skill(self, candidate: Candidate, settlement: Settlement, standing: Standing) -> Skill:
        """Return the candidate as a skill with this standing."""
        content, source = candidate.content, candidate.source
        key, path = content.name, content.place or content.name
        notes: tuple[Diagnostic, ...] = ()
        if (placement := settlement.placements.get(candidate.position)) is not None:
            key, path = placement.key, placement.path
            notes = candidate.name_notes(placement)
        skill_key = _settled_key(content, settlement)
        entry = self._environment.entries.get(skill_key.lower())
        credential = primary_credential(content.instructions.frontmatter.primary_env, self._environment, entry)
        return Skill(content, source, key, path, *standing, notes, credential, skill_key)

    def _exclusion_of(self, content: SkillContent, source: Source, settlement: Settlement) -> Exclusion | None:
        """Return why a review, the user's choice or a gate excludes a skill of `source`, None where neither does."""
        if content.exclusion is not None:
            return content.exclusion
        environment, key = self._environment, _settled_key(content, settlement).lower()
        if exclusion := _choice_against(content, source, environment, settlement):
            return exclusion
        # An entry that disables does so by any key; for all other purposes, a key belongs to the skill of this name.
        for each in (key, content.skill_key.lower()) if environment.entries else ():
            entry = environment.entries.get(each)
            if entry is not None and entry.enabled is False:
                return Exclusion(Reason.DISABLED, f"skills.json has enabled: false for {each}")
        allowed = environment.bundled if source.scope is Scope.BUNDLED else None
        if allowed is not None and allowed.isdisjoint({content.name.lower(), key}):
            return Exclusion(Reason.BUNDLED_NOT_ALLOWED, "allowBundled in skills.json does not name it")
        front, entry = content.instructions.frontmatter, environment.entries.get(key)
        for gate in front.gates:
            exclusion = evaluate_gate(gate, environment, entry, front.primary_env)
            if exclusion is not None:
                return exclusion
        return None


def is_trusted(source: Source, environment: Environment) -> bool:
    """Tell whether the user trusts the project that a source belongs to; a source outside of projects is trusted."""
    return source.project is None or environment.trusts(source.project)


def apply_requirements(
    candidates: Sequence[Candidate], standings: Sequence[Standing], settlement: Settlement
) -> list[Standing]:
    """Return the standings with those candidates excluded that require a skill which is not served.

    `candidates` are those that compete for names.
    """
    if not any(candidate.requires for candidate in candidates):
        return [*standings]
    pairs = [*zip(candidates, standings, strict=True)]
    active = [number for number, (_, standing) in enumerate(pairs) if standing.state is State.ACTIVE]
    unserved = {
        name: f"is {standing.state} ({standing.detail})"
        for candidate, standing in pairs
        if standing.state is not State.ACTIVE
        for name in candidate.content.names_beside(settlement.names)
    }
    competing = [candidates[number] for number in active]
    requiring = [Requiring(each.content.names_beside(settlement.names), each.requires) for each in competing]
    result = [*standings]
    for position, exclusion in unmet_requirements(requiring, unserved).items():
        result[active[position]] = Standing(State.EXCLUDED, exclusion.reason, exclusion.detail)
    return result


def standing_of(skill: Skill, *, before_requirements: bool = False) -> Standing:
    """Return the standing that was decided for a skill, as it is or as it was before requirements."""
    if before_requirements and (
        skill.reason is Reason.UNMET_REQUIREMENT or skill.reason is Reason.CIRCULAR_REQUIREMENT
    ):
        return ACTIVE
    return Standing(skill.state, skill.reason, skill.detail)


def _settled_key(content: SkillContent, settlement: Settlement) -> str:
    """Return the key of a skill in configuration, which is its name if its `skillKey` is the name of another skill.

    Case does not matter, as in `skills.json`.
    """
    key = content.skill_key
    if key == content.name:
        return key
    is_taken = key.lower() != content.name.lower() and key.lower() in settlement.lowered_names
    return content.name if is_taken else key


def _choice_against(
    content: SkillContent, source: Source, environment: Environment, settlement: Settlement
) -> Exclusion | None:
    """Return how the settings `enabled` and `disabled` exclude a skill, None if they do not."""
    if not environment.disabled and not environment.enabled:
        return None
    if any(chooses(choice, content, source, content.names) for choice in environment.disabled):
        return Exclusion(Reason.DISABLED, "the setting 'disabled' names it")
    names = content.names_beside(settlement.names) if environment.enabled else ()
    if environment.enabled and not any(chooses(choice, content, source, names) for choice in environment.enabled):
        return Exclusion(Reason.DISABLED, "the setting 'enabled' does not name it")
    return None


def _untrusted(project: str) -> str:
    return f"the project {project} is not trusted; if you trust what is in it, run: skillserve trust {project}"
