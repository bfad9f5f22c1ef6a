"""Decide over everything that was loaded: which skill has a name, and whether it is served.

Order matters: what is not trusted takes no name, conflicts are settled before gates, and requirements are checked
when it is known what is there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.catalog import Catalog, FoundSource, order_of
from skills_core.conflicts import Candidate, Placement, settle
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.gates import Environment, Exclusion, evaluate_gate, primary_credential
from skills_core.requirements import unmet_requirements
from skills_core.skill import Skill, State
from skills_core.sources import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skills_core.loading.discovery import LoadedSource
    from skills_core.skill import SkillContent
    from skills_core.sources import Source

__all__ = ["build_catalog", "exclusion_of", "is_trusted", "same_or_new"]


def build_catalog(sources: Sequence[LoadedSource], environment: Environment, before: Catalog | None = None) -> Catalog:
    """Decide over everything that was loaded; `sources` are in order of precedence.

    Skills that came out as they were `before` are the same objects.
    """
    candidates = [
        Candidate(rank, loaded.source, content)
        for rank, loaded in enumerate(sources)
        for content in loaded.contents.values()
    ]
    sound = [candidate for candidate in candidates if candidate.content.instructions.fault is None]
    # What is not trusted takes no name from anybody.
    untrusted = {rank for rank, loaded in enumerate(sources) if not is_trusted(loaded.source, environment)}
    valid = [candidate for candidate in sound if candidate.rank not in untrusted]
    settlement = settle(valid, before.settlement if before else None)
    known = {_place_of(skill): skill for skill in before.skills} if before else {}
    skills: list[Skill] = []
    for number, candidate in enumerate(valid):
        placement = settlement.placements.get(number)
        if placement is None:
            skills.append(_shadowed(candidate, valid[settlement.holders[number]]))
        else:
            skills.append(_gated(candidate, placement, environment))
    skills = _required(skills)
    skills += [_untrusted(candidate) for candidate in sound if candidate.rank in untrusted]
    skills += [_invalid(candidate) for candidate in candidates if candidate.content.instructions.fault is not None]
    skills = [same_or_new(known.get(_place_of(skill)), with_credential(skill, environment)) for skill in skills]
    skills.sort(key=order_of)
    problems = tuple(problem for loaded in sources for problem in loaded.problems)
    return Catalog(tuple(skills), problems + environment.problems, _found(sources, skills, environment), settlement)


def _found(
    sources: Sequence[LoadedSource], skills: Sequence[Skill], environment: Environment
) -> tuple[FoundSource, ...]:
    counts = Counter(skill.source.root for skill in skills)
    return tuple(
        FoundSource(
            loaded.source,
            exists="" in loaded.tree,
            trusted=is_trusted(loaded.source, environment),
            skills=counts[loaded.source.root],
        )
        for loaded in sources
    )


def _place_of(skill: Skill) -> tuple[Path, str]:
    return skill.source.root, skill.content.place


def with_credential(skill: Skill, environment: Environment) -> Skill:
    """Return the skill with what the environment knows of its credential."""
    entry = environment.entries.get(skill.skill_key.lower())
    credential = primary_credential(skill.frontmatter.primary_env, environment, entry)
    return skill if credential == skill.credential else replace(skill, credential=credential)


def same_or_new(old: Skill | None, new: Skill) -> Skill:
    """Return the skill as it was where it is still the same, so that catalogs can be compared by identity."""
    return old if old is not None and old == new and _look_alike(old.content, new.content) else new


def _look_alike(old: SkillContent, new: SkillContent) -> bool:
    """Tell whether files that are equal also look the same on disk, so that they can be served from memory."""
    return old is new or all(old.files[path].fingerprint == file.fingerprint for path, file in new.files.items())


def _gated(candidate: Candidate, placement: Placement, environment: Environment) -> Skill:
    content, (key, path) = candidate.content, (placement.key, placement.path)
    notes = _duplicate_note(candidate, key) if placement.shares_name else ()
    exclusion = exclusion_of(content, candidate.source, environment)
    if exclusion is None:
        return Skill(content, candidate.source, key, path, State.ACTIVE, notes=notes)
    reason, detail = exclusion.reason, exclusion.detail
    return Skill(content, candidate.source, key, path, State.EXCLUDED, reason, detail, notes)


def exclusion_of(content: SkillContent, source: Source, environment: Environment) -> Exclusion | None:
    """Return why a skill of `source` is not served, None where neither the user's choice nor a gate is against it."""
    front = content.instructions.frontmatter
    name, key = content.name.lower(), content.skill_key.lower()
    if any(_is_meant(content, source, each) for each in environment.disabled):
        return Exclusion(Reason.DISABLED, "the setting disabled names it")
    if environment.enabled and not any(_is_meant(content, source, each) for each in environment.enabled):
        return Exclusion(Reason.DISABLED, "the setting enabled does not name it")
    entry = environment.entries.get(key)
    if entry is not None and entry.enabled is False:
        return Exclusion(Reason.DISABLED, f"skills.json has enabled: false for {key}")
    if (
        source.scope is Scope.BUNDLED
        and environment.bundled is not None
        and environment.bundled.isdisjoint({name, key})
    ):
        return Exclusion(Reason.BUNDLED_NOT_ALLOWED, "allowBundled in skills.json does not name it")
    found = (evaluate_gate(gate, environment, entry, front.primary_env) for gate in front.gates)
    return next((exclusion for exclusion in found if exclusion is not None), None)


def _duplicate_note(candidate: Candidate, key: str) -> tuple[Diagnostic, ...]:
    message = f"another skill of this source is named {candidate.content.name!r} too, so this one answers to {key!r}"
    return (Diagnostic(Severity.WARNING, Reason.DUPLICATE_NAME, message, _where(candidate)),)


def _is_meant(content: SkillContent, source: Source, choice: str) -> bool:
    """Tell whether a setting means a skill: by its name, `tag:` with one of its tags, `source:` with scope or path."""
    front = content.instructions.frontmatter
    kind, colon, value = choice.partition(":")
    if colon and kind == "tag":
        return value.strip().lower() in {tag.lower() for tag in front.tags}
    if colon and kind == "source":
        return value.strip() in {source.scope.value, str(source.root)}
    return choice in {content.name, front.skill_key}


def _required(skills: list[Skill]) -> list[Skill]:
    """Return the skills with those excluded that require what is not served."""
    if not any(skill.frontmatter.requires for skill in skills):
        return skills
    # Where several share a name, one that is served will do.
    active = {skill.name: skill.frontmatter.requires for skill in skills if skill.state is State.ACTIVE}
    otherwise = {skill.name: f"is {skill.state} ({skill.detail})" for skill in skills if skill.name not in active}
    unmet = unmet_requirements(active, otherwise)
    return [
        replace(skill, state=State.EXCLUDED, reason=unmet[skill.name].reason, detail=unmet[skill.name].detail)
        if skill.state is State.ACTIVE and skill.name in unmet
        else skill
        for skill in skills
    ]


def is_trusted(source: Source, environment: Environment) -> bool:
    """Tell whether what is in a source counts: it is no project's, or the user trusts the project."""
    return source.project is None or environment.trusts(source.project)


def _untrusted(candidate: Candidate) -> Skill:
    project = printable(str(candidate.source.project))
    detail = f"the project {project} is not trusted; if you trust what is in it, run: skillserve trust {project}"
    return _inactive(candidate, State.EXCLUDED, Reason.UNTRUSTED, detail)


def _shadowed(candidate: Candidate, holder: Candidate) -> Skill:
    detail = f"shadowed by {_where(holder)}"
    return _inactive(candidate, State.SHADOWED, Reason.SHADOWED, detail)


def _invalid(candidate: Candidate) -> Skill:
    instructions = candidate.content.instructions
    detail = next((d.message for d in instructions.diagnostics if d.code is instructions.fault), "")
    return _inactive(candidate, State.INVALID, instructions.fault, detail)


def _inactive(candidate: Candidate, state: State, reason: Reason | None, detail: str) -> Skill:
    content = candidate.content
    return Skill(content, candidate.source, content.name, _folder_path(candidate), state, reason, detail)


def _folder_path(candidate: Candidate) -> str:
    return candidate.content.place or candidate.content.name


def _where(candidate: Candidate) -> str:
    return printable("/".join(part for part in (str(candidate.source.root), candidate.content.place) if part))
