"""Make the catalog of what was loaded, or the next one after a reload.

The decision on a skill has these steps: validity, trust, conflicts over names, review, the user's choice and gates,
requirements. A skill of an untrusted project competes for no name, and a gate that excludes the winner of a name does
not free it.

A full build decides on every skill, which takes some hundred milliseconds for ten thousand. An update decides only on
the skills that came, went or changed, and on those with gates; it is possible where this concerns no other skills, by
its name, its path or what they require. Its result equals that of a full build.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from skills_core.catalog.catalog import Catalog, FoundSource, order_of
from skills_core.catalog.conflicts import Candidate, resettle, settle
from skills_core.diagnostics import Reason, printable
from skills_core.disk.sources import Scope
from skills_core.skills.choices import choices_of
from skills_core.skills.gates import (
    Environment,
    Exclusion,
    Requiring,
    evaluate_gate,
    primary_credential,
    unmet_requirements,
)
from skills_core.skills.skill import Skill, State, is_same_skill

if TYPE_CHECKING:
    from skills_core.catalog.conflicts import Position, Settlement
    from skills_core.diagnostics import Diagnostic
    from skills_core.disk.sources import Source
    from skills_core.loading.discovery import LoadedSource
    from skills_core.skills.skill import SkillContent


_PART = 4096
# Skills that are sorted at once.

_FEW = 64
_SHARE = 8
# An update decides on so many skills at most, or on this part of all skills: then a full build costs as much.


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
        """Yield a candidate for everything that was loaded, in the order of the positions."""
        for rank, loaded in enumerate(self._sources):
            for _, content in sorted(loaded.contents.items(), key=itemgetter(0)):
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
        shadowing = settlement.shadowing
        winner = shadowing.get(candidate.position) if shadowing else None
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
        skill_key, credential = _settled_key(content, settlement), None
        if primary := content.instructions.frontmatter.primary_env:
            entry = self._environment.entries.get(skill_key.lower())
            credential = primary_credential(primary, self._environment, entry)
        return Skill(content, source, key, path, *standing, notes, credential, skill_key)

    def _exclusion_of(self, content: SkillContent, source: Source, settlement: Settlement) -> Exclusion | None:
        """Return why a review, the user's choice or a gate excludes a skill of `source`, None where neither does."""
        if content.exclusion is not None:
            return content.exclusion
        environment, front = self._environment, content.instructions.frontmatter
        if exclusion := _choice_against(content, source, environment, settlement):
            return exclusion
        allowed = environment.bundled if source.scope is Scope.BUNDLED else None
        if not front.gates and not environment.entries and allowed is None:
            return None
        key = _settled_key(content, settlement).lower()
        # An entry that disables does so by any key; for all other purposes, a key belongs to the skill of this name.
        for each in (key, content.skill_key.lower()) if environment.entries else ():
            entry = environment.entries.get(each)
            if entry is not None and entry.enabled is False:
                return Exclusion(Reason.DISABLED, f"skills.json has enabled: false for {each}")
        if allowed is not None and allowed.isdisjoint({content.name.lower(), key}):
            return Exclusion(Reason.BUNDLED_NOT_ALLOWED, "allowBundled in skills.json does not name it")
        entry = environment.entries.get(key)
        found = (evaluate_gate(gate, environment, entry, front.primary_env) for gate in front.gates)
        return next(filter(None, found), None)


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
        for name in candidate.content.names_beside(settlement.holders)
    }
    competing = [candidates[number] for number in active]
    requiring = [Requiring(each.content.names_beside(settlement.holders), each.requires) for each in competing]
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
    name, key = content.instructions.name, content.instructions.frontmatter.skill_key
    if not key or key == name:
        return name
    is_taken = key.lower() != name.lower() and key.lower() in settlement.lowered
    return name if is_taken else key


def _choice_against(
    content: SkillContent, source: Source, environment: Environment, settlement: Settlement
) -> Exclusion | None:
    """Return how the settings `enabled` and `disabled` exclude a skill, None if they do not."""
    if not environment.disabled and not environment.enabled:
        return None
    if choices_of(environment.disabled).select(content, source, content.names):
        return Exclusion(Reason.DISABLED, "the setting 'disabled' names it")
    names = content.names_beside(settlement.holders) if environment.enabled else ()
    if environment.enabled and not choices_of(environment.enabled).select(content, source, names):
        return Exclusion(Reason.DISABLED, "the setting 'enabled' does not name it")
    return None


def build_catalog(sources: Sequence[LoadedSource], environment: Environment, before: Catalog | None = None) -> Catalog:
    """Decide on everything that was loaded; `sources` are in order of precedence.

    Skills that are the same as `before` stay the same objects.
    """
    decider = Decider(sources, environment)
    candidates = [*decider.candidates()]
    competing, others = list[Candidate](), list[Candidate]()
    for candidate in candidates:
        (competing if decider.competes(candidate) else others).append(candidate)
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
    # Requests wait for a sort, which holds Python's lock: one of sorted parts takes a third as long as one of all.
    parts = (skills[start : start + _PART] for start in range(0, len(skills), _PART))
    skills = [*chain.from_iterable(sorted(part, key=order_of) for part in parts)]
    skills.sort(key=order_of)
    counts = Counter(candidate.rank for candidate in candidates)
    found = _found(sources, decider, [counts[rank] for rank in range(len(sources))])
    return Catalog(tuple(skills), _problems(sources, environment), found, settlement)


def update_catalog(
    before: Catalog,
    loaded: tuple[Sequence[LoadedSource], Sequence[LoadedSource]],
    environments: tuple[Environment, Environment],
) -> Catalog:
    """Return the catalog after `before`, which is `before` itself if nothing changed.

    The pairs are what `before` was made of, and what there is now.
    """
    _, sources = loaded
    _, environment = environments
    decider = Decider(sources, environment)
    update = _update(before, decider, loaded, environments)
    if update is None:
        after = build_catalog(sources, environment, before)
        return before if after.is_same(before) else after
    root_counts = Counter({found.source.root: found.skills for found in before.sources})
    root_counts.subtract(skill.source.root for skill in update.gone)
    root_counts.update(skill.source.root for skill in update.come)
    found = _found(sources, decider, [root_counts[each.source.root] for each in sources])
    problems = _problems(sources, environment)
    if not update.gone and not update.come and (problems, found) == (before.problems, before.sources):
        return before
    return before.updated(*update, problems, found)


class _Update(NamedTuple):
    """The skills that go, those that come, and the settlement then; a skill that changes goes, and comes as it is."""

    gone: Sequence[Skill]
    come: Sequence[Skill]
    settlement: Settlement


class _Changed(NamedTuple):
    """A skill whose content came, went or changed, with what there was and what there is now at its place."""

    skill: Skill | None
    before: Candidate | None
    after: Candidate | None

    @property
    def position(self) -> Position:
        """The position of the skill."""
        either = self.after or self.before
        assert either is not None  # noqa: S101 - it came, went or changed
        return either.position


def _update(
    before: Catalog,
    decider: Decider,
    loaded: tuple[Sequence[LoadedSource], Sequence[LoadedSource]],
    environments: tuple[Environment, Environment],
) -> _Update | None:
    """Return how the skills change that the change concerns; None where a full build costs less or has to decide."""
    if not _choose_alike(loaded[1], *environments):
        return None
    places = _places_changed(*loaded)
    most = max(_FEW, len(before.skills) // _SHARE)
    if sum(map(len, places.values())) > most:
        return None
    changes = {each.position: each for each in _changes(before, places, *loaded)}

    # What gates depend on may have changed.
    rank_of = {each.source.root: rank for rank, each in enumerate(loaded[1])}
    for skill in before.conditional:
        candidate = Candidate(rank_of[skill.source.root], skill.source, skill.content)
        if candidate.position not in changes and not _stands(skill, candidate, decider, before):
            changes[candidate.position] = _Changed(skill, candidate, candidate)
    staying = {position for position, each in changes.items() if _stays(each, decider, before)}
    moving = {position: each for position, each in changes.items() if position not in staying}
    if not moving:
        return _revised(decider, changes, staying, before.settlement)
    settled = _settled(before, decider, moving, loaded[1], most)
    if settled is None:
        return None
    settlement, concerned = settled
    if not _apart_by_requirements(before, [*{**moving, **concerned}.values()]):
        return None
    return _revised(decider, changes | concerned, staying - concerned.keys(), settlement)


def _stands(skill: Skill, candidate: Candidate, decider: Decider, before: Catalog) -> bool:
    """Tell whether the skill, as the candidate, has the standing that it has now."""
    return decider.standing(candidate, before.settlement) == standing_of(skill, before_requirements=True)


def _stays(change: _Changed, decider: Decider, before: Catalog) -> bool:
    """Tell whether a change concerns no other skill."""
    skill, after = change.skill, change.after
    if skill is None or after is None or not _look_alike_to_others(change):
        return False
    return _stands(skill, after, decider, before) and before.settlement.has_same_room(after)


def _revised(
    decider: Decider, changes: Mapping[Position, _Changed], staying: Container[Position], settlement: Settlement
) -> _Update:
    """Return the update that changes amount to; those that are `staying` keep their standing."""
    gone, come = list[Skill](), list[Skill]()
    for position, (skill, _, after) in changes.items():
        revised: Skill | None = None
        if after is not None:
            keeps = skill if position in staying else None
            standing = standing_of(keeps) if keeps is not None else decider.standing(after, settlement)
            revised = _same_or_new(skill, decider.skill(after, settlement, standing))
        if revised is not skill:
            gone += [skill] if skill is not None else []
            come += [revised] if revised is not None else []
    return _Update(tuple(gone), tuple(come), settlement)


def _places_changed(old: Sequence[LoadedSource], new: Sequence[LoadedSource]) -> dict[int, Collection[str]]:
    """Return the places whose contents differ, by the rank of their source."""
    pairs = enumerate(zip(old, new, strict=True))
    return {rank: now.places_changed_since(was) for rank, (was, now) in pairs if was is not now}


def _changes(
    before: Catalog,
    places: Mapping[int, Collection[str]],
    old: Sequence[LoadedSource],
    new: Sequence[LoadedSource],
) -> Iterator[_Changed]:
    """Yield the differences of the contents at some places of each source."""
    for rank, inside in places.items():
        was, now = old[rank], new[rank]
        for place in inside:
            known, content = was.contents.get(place), now.contents.get(place)
            yield _Changed(
                None if known is None else before.skill_of(was.source.root, known),
                None if known is None else Candidate(rank, was.source, known),
                None if content is None else Candidate(rank, now.source, content),
            )


def _settled(
    before: Catalog,
    decider: Decider,
    moving: Mapping[Position, _Changed],
    sources: Sequence[LoadedSource],
    most: int,
) -> tuple[Settlement, dict[Position, _Changed]] | None:
    """Return the settlement after skills moved, and the other skills that this concerns; None if there are many."""

    def now(position: Position) -> Candidate:
        rank, place = position
        return Candidate(rank, sources[rank].source, sources[rank].contents[place])

    def competing(candidate: Candidate | None) -> Candidate | None:
        return candidate if candidate is not None and decider.competes(candidate) else None

    changed = {position: competing(each.after) for position, each in moving.items()}
    known = before.settlement.claims
    changed = {position: each for position, each in changed.items() if each is not None or position in known}
    if not changed:
        return before.settlement, {}
    settled = resettle(before.settlement, changed, now, most)
    if settled is None:
        return None
    settlement, concerned = settled
    others = {position: now(position) for position in concerned - moving.keys()}
    skills = {position: before.skill_of(each.source.root, each.content) for position, each in others.items()}
    return settlement, {position: _Changed(skills[position], each, each) for position, each in others.items()}


def _apart_by_requirements(before: Catalog, changes: Sequence[_Changed]) -> bool:
    """Tell whether no other skills depend on these by what they require or by their keys, nor these on others."""
    contents = [each.content for change in changes for each in (change.before, change.after) if each is not None]
    names = {name for content in contents for name in content.names}
    lowered = {name.lower() for name in names}
    if any(content.instructions.frontmatter.requires for content in contents):
        return False
    if any(not names.isdisjoint(skill.frontmatter.requires) for skill in before.requiring):
        return False
    # A `skillKey` counts only while no skill has it as its name.
    identities = {change.skill.identity for change in changes if change.skill}
    return not any(
        skill.content.skill_key.lower() in lowered and skill.identity not in identities for skill in before.keyed
    )


def _choose_alike(sources: Sequence[LoadedSource], before: Environment, after: Environment) -> bool:
    """Tell whether two environments give all skills without gates the same standing and credentials."""
    projects = {project for each in sources if (project := each.source.project) is not None}
    return (
        (before.enabled, before.disabled, before.bundled) == (after.enabled, after.disabled, after.bundled)
        and (before.entries, before.variables) == (after.entries, after.variables)
        and all(before.trusts(project) == after.trusts(project) for project in projects)
    )


def _look_alike_to_others(change: _Changed) -> bool:
    """Tell whether both contents of a change agree in what other skills and the order of the catalog depend on."""
    if change.before is None or change.after is None:
        return False
    old, new = change.before.content, change.after.content
    before, after = old.instructions.frontmatter, new.instructions.frontmatter
    return old.names == new.names and before.requires == after.requires and bool(before.gates) == bool(after.gates)


def _found(sources: Sequence[LoadedSource], decider: Decider, counts: Sequence[int]) -> tuple[FoundSource, ...]:
    return tuple(
        FoundSource(loaded.source, "" in loaded.tree, trusted, count, loaded.complete, loaded.fault)
        for loaded, trusted, count in zip(sources, decider.trusted, counts, strict=True)
    )


def _problems(sources: Sequence[LoadedSource], environment: Environment) -> tuple[Diagnostic, ...]:
    return tuple(problem for loaded in sources for problem in loaded.problems) + environment.problems


def _same_or_new(old: Skill | None, new: Skill) -> Skill:
    """Return `old` if `new` is the same, so that most comparisons of catalogs are by identity."""
    return old if old is not None and is_same_skill(old, new) else new
