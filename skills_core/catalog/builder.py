"""Make the catalog of what was loaded, or the next one after a reload.

Both ask `catalog.states`. A full build decides on every skill, which takes some hundred milliseconds for ten
thousand. An update decides only on the skills that changed and on those with gates; it is possible where nothing
changed that other skills depend on, as in the most frequent edit, that of a skill's text. Its result equals that of a
full build.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skills_core.catalog.catalog import Catalog, FoundSource, order_of
from skills_core.catalog.conflicts import Candidate, settle
from skills_core.catalog.states import Decider, apply_requirements, standing_of
from skills_core.skills.skill import is_same_skill

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from skills_core.diagnostics import Diagnostic
    from skills_core.loading.discovery import LoadedSource
    from skills_core.skills.gates import Environment
    from skills_core.skills.skill import Skill, SkillContent

__all__ = ["build_catalog", "update_catalog"]


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
    known = {_place_of(skill): skill for skill in before.skills} if before else {}
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


def _place_of(skill: Skill) -> tuple[Path, str]:
    return skill.source.root, skill.content.place


def _same_or_new(old: Skill | None, new: Skill) -> Skill:
    """Return `old` if `new` is the same, so that most comparisons of catalogs are by identity."""
    return old if old is not None and is_same_skill(old, new) else new
