"""Make the catalog of what was loaded, or the next one after a reload.

The decision on a skill has these steps: validity, trust, conflicts over names, review, the user's choice and gates,
requirements. A skill of an untrusted project competes for no name, and a gate that excludes the winner of a name does
not free it.

A full build decides on every skill, which takes some hundred milliseconds for ten thousand. An update decides only on
the skills that changed and on those with gates; it is possible where nothing changed that other skills depend on, as in
the most frequent edit, that of a skill's text. Its result equals that of a full build.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skills_core.catalog.catalog import Catalog, FoundSource, order_of
from skills_core.catalog.conflicts import Candidate, settle
from skills_core.diagnostics import Reason, printable
from skills_core.disk.sources import Scope
from skills_core.skills.gates import (
    Environment,
    Exclusion,
    Requiring,
    evaluate_gate,
    primary_credential,
    unmet_requirements,
)
from skills_core.skills.skill import Skill, State, chooses, is_same_skill

if TYPE_CHECKING:
    from skills_core.catalog.conflicts import Settlement
    from skills_core.diagnostics import Diagnostic
    from skills_core.disk.sources import Source
    from skills_core.loading.discovery import LoadedSource
    from skills_core.skills.skill import SkillContent


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
            project = printable(str(source.project))
            advice = f"if you trust what is in it, run: skillserve trust {project}"
            return Standing(State.EXCLUDED, Reason.UNTRUSTED, f"the project {project} is not trusted; {advice}")
        winner = settlement.shadowing.get(candidate.position)
        if winner is not None:
            rank, place = winner
            return Standing(State.SHADOWED, Reason.SHADOWED, f"shadowed by {self._sources[rank].source.shown(place)}")
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


def build_catalog(sources: Sequence[LoadedSource], environment: Environment, before: Catalog | None = None) -> Catalog:
    """Decide on everything that was loaded; `sources` are in order of precedence.

    Skills that are the same as `before` stay the same objects.
    """
    decider = Decider(sources, environment)
    candidates = [*decider.candidates()]
    competing = [candidate for candidate in candidates if decider.competes(candidate)]
    others = [candidate for candidate in candidates if not decider.competes(candidate)]
    settlement = settle(competing, before.settlement if before else None)
    standings = [decider.standing(candidate, settlement) for candidate in competing]
    standings = apply_requirements(competing, standings, settlement)
    standings += [decider.standing(candidate, settlement) for candidate in others]
    known = {skill.identity: skill for skill in before.skills} if before else {}
    skills = [
        _same_or_new(
            known.get((candidate.source.root, candidate.content.place)), decider.skill(candidate, settlement, standing)
        )
        for candidate, standing in zip([*competing, *others], standings, strict=True)
    ]
    skills.sort(key=order_of)
    counts = Counter(candidate.rank for candidate in candidates)
    found = _found(sources, decider, [counts[rank] for rank in range(len(sources))])
    return Catalog(tuple(skills), _problems(sources, environment), found, settlement)


def update_catalog(
    before: Catalog,
    loaded: tuple[Sequence[LoadedSource], Sequence[LoadedSource]],
    environments: tuple[Environment, Environment],
) -> Catalog:
    """Return the catalog after `before`; the pairs are what `before` was made of, and what there is now."""
    _, sources = loaded
    _, environment = environments
    decider = Decider(sources, environment)
    pairs = _pairs(before, decider, loaded, environments)
    if pairs is None:
        return build_catalog(sources, environment, before)
    problems = _problems(sources, environment)
    found = _found(sources, decider, [known.skills for known in before.sources])
    if not pairs and (problems, found) == (before.problems, before.sources):
        return before
    return before.with_replaced(pairs, problems, found)


def _pairs(
    before: Catalog,
    decider: Decider,
    loaded: tuple[Sequence[LoadedSource], Sequence[LoadedSource]],
    environments: tuple[Environment, Environment],
) -> list[tuple[Skill, Skill]] | None:
    """Return each skill that changed as it was and as it is; None where the change may concern other skills."""
    old, new = loaded
    replaced = _replaced(old, new)
    # A skill that is mapped to another path may have to move when files of the skill around it come and go.
    if replaced is None or before.settlement.room or not _choose_alike(new, *environments):
        return None
    rank_of = {each.source.root: rank for rank, each in enumerate(new)}

    def candidate(skill: Skill, content: SkillContent) -> Candidate:
        return Candidate(rank_of[skill.source.root], skill.source, content)

    def stands(skill: Skill, content: SkillContent) -> bool:
        """Tell whether the skill, with this content, has the standing that it has now."""
        standing = decider.standing(candidate(skill, content), before.settlement)
        return standing == standing_of(skill, before_requirements=True)

    changed = [*_with_content(before.skills, replaced)] if replaced else []
    if not all(_look_alike_to_others(skill.content, content) and stands(skill, content) for skill, content in changed):
        return None
    if not all(stands(skill, skill.content) for skill in before.conditional):
        return None
    settlement = before.settlement
    after = [
        (skill, _same_or_new(skill, decider.skill(candidate(skill, content), settlement, standing_of(skill))))
        for skill, content in changed
    ]
    return [(skill, revised) for skill, revised in after if skill is not revised]


def _replaced(
    before: Sequence[LoadedSource], after: Sequence[LoadedSource]
) -> dict[str, dict[Path, SkillContent]] | None:
    """Return the contents that replace others, by place and root; None where places came or went."""
    replaced: dict[str, dict[Path, SkillContent]] = {}
    for old, new in zip(before, after, strict=True):
        if old is new:
            continue
        if [*old.contents] != [*new.contents]:
            return None
        for known, content in zip(old.contents.values(), new.contents.values(), strict=True):
            if known is not content:
                replaced.setdefault(content.place, {})[new.source.root] = content
    return replaced


def _with_content(
    skills: Sequence[Skill], replaced: Mapping[str, Mapping[Path, SkillContent]]
) -> Iterator[tuple[Skill, SkillContent]]:
    """Yield each skill whose content is replaced, with its new content."""
    for skill in skills:
        if (by_root := replaced.get(skill.content.place)) is not None:
            content = by_root.get(skill.source.root)
            if content is not None:
                yield skill, content


def _choose_alike(sources: Sequence[LoadedSource], before: Environment, after: Environment) -> bool:
    """Tell whether two environments give all skills without gates the same standing and credentials."""
    projects = {project for each in sources if (project := each.source.project) is not None}
    return (
        (before.enabled, before.disabled, before.bundled) == (after.enabled, after.disabled, after.bundled)
        and (before.entries, before.variables) == (after.entries, after.variables)
        and all(before.trusts(project) == after.trusts(project) for project in projects)
    )


def _look_alike_to_others(old: SkillContent, new: SkillContent) -> bool:
    """Tell whether two contents agree in what other skills and the order of the catalog depend on."""
    before, after = old.instructions.frontmatter, new.instructions.frontmatter
    return (
        old.names == new.names
        and before.requires == after.requires
        and bool(before.gates) == bool(after.gates)
        and before.model_invocable == after.model_invocable
        and before.always_on == after.always_on
    )


def _found(sources: Sequence[LoadedSource], decider: Decider, counts: Sequence[int]) -> tuple[FoundSource, ...]:
    return tuple(
        FoundSource(loaded.source, exists="" in loaded.tree, trusted=trusted, skills=count)
        for loaded, trusted, count in zip(sources, decider.trusted, counts, strict=True)
    )


def _problems(sources: Sequence[LoadedSource], environment: Environment) -> tuple[Diagnostic, ...]:
    return tuple(problem for loaded in sources for problem in loaded.problems) + environment.problems


def _same_or_new(old: Skill | None, new: Skill) -> Skill:
    """Return `old` if `new` is the same, so that most comparisons of catalogs are by identity."""
    return old if old is not None and is_same_skill(old, new) else new
