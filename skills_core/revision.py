"""The short way from one catalog to the next, for the change that comes most often: the text of a few skills.

Deciding over everything costs what exists, some hundred milliseconds with ten thousand skills. Where names, places,
states and all that decides on them are as before, the next catalog is the one before with a few contents replaced.
What comes out is what `decisions.build_catalog` would have made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.decisions import exclusion_of, same_or_new, with_credential
from skills_core.diagnostics import Reason
from skills_core.skill import Skill, State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skills_core.catalog import Catalog
    from skills_core.gates import Environment
    from skills_core.loading.discovery import LoadedSource
    from skills_core.skill import SkillContent

__all__ = ["revise_catalog"]


def revise_catalog(
    before: Catalog,
    loaded: tuple[Sequence[LoadedSource], Sequence[LoadedSource]],
    environments: tuple[Environment, Environment],
) -> Catalog | None:
    """Return the catalog after `before`, or None where it takes a full decision.

    `loaded` and `environments` are what `before` was made of, and what there is now.
    """
    (_, environment), (_, sources) = environments, loaded
    replaced = _replaced(*loaded)
    # What was put elsewhere than it lies may have to move when files come and go.
    if replaced is None or before.settlement.room or not _choose_alike(sources, *environments):
        return None
    if any(_state_of(skill, skill.content, environment) != _state(skill) for skill in before.conditional):
        return None
    pairs: list[tuple[Skill, Skill]] = []
    for skill in before.skills if replaced else ():
        content = replaced[skill.content.place].get(skill.source.root) if skill.content.place in replaced else None
        if content is None:
            continue
        if not _are_alike(skill.content, content) or _state_of(skill, content, environment) != _state(skill):
            return None
        pairs.append((skill, same_or_new(skill, with_credential(replace(skill, content=content), environment))))
    problems = tuple(problem for source in sources for problem in source.problems) + environment.problems
    pairs = [(old, new) for old, new in pairs if old is not new]
    found = tuple(
        replace(known, exists="" in source.tree) for known, source in zip(before.sources, sources, strict=True)
    )
    if not pairs and (problems, found) == (before.problems, before.sources):
        return before
    return before.with_replaced(pairs, problems, found)


def _replaced(
    before: Sequence[LoadedSource], after: Sequence[LoadedSource]
) -> dict[str, dict[Path, SkillContent]] | None:
    """Return the contents that stand in the place of others, by place and root; None where places came or went."""
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


def _choose_alike(sources: Sequence[LoadedSource], before: Environment, after: Environment) -> bool:
    """Tell whether two environments choose alike among skills, but for the gates of single ones."""
    projects = {source.source.project for source in sources} - {None}
    return (
        (before.enabled, before.disabled, before.bundled) == (after.enabled, after.disabled, after.bundled)
        and (before.entries, before.variables) == (after.entries, after.variables)
        and all(before.trusts(project) == after.trusts(project) for project in projects if project is not None)
    )


def _are_alike(old: SkillContent, new: SkillContent) -> bool:
    """Tell whether other skills see no difference between two contents."""
    return (
        old.name == new.name
        and old.instructions.fault is None
        and new.instructions.fault is None
        and old.instructions.frontmatter.requires == new.instructions.frontmatter.requires
        and old.instructions.frontmatter.gates == new.instructions.frontmatter.gates
        and old.instructions.frontmatter.model_invocable == new.instructions.frontmatter.model_invocable
        and old.instructions.frontmatter.always_on == new.instructions.frontmatter.always_on
    )


def _state(skill: Skill) -> tuple[State, Reason | None, str]:
    return skill.state, skill.reason, skill.detail


def _state_of(skill: Skill, content: SkillContent, environment: Environment) -> tuple[State, Reason | None, str]:
    """Return the state that a skill has with this content, where its name is settled as before."""
    if skill.state is State.SHADOWED or skill.reason is Reason.UNTRUSTED:
        return _state(skill)
    exclusion = exclusion_of(content, skill.source, environment)
    return (State.EXCLUDED, exclusion.reason, exclusion.detail) if exclusion else (State.ACTIVE, None, "")
