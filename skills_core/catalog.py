"""The catalog: one immutable snapshot of all skills with their states, and the lookups over it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_core.conflicts import NOTHING_SETTLED, Candidate, Placement, Settlement, settle
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.errors import UnknownFileError, UnknownSkillError
from skills_core.gates import Environment, Exclusion, evaluate_gate
from skills_core.requirements import unmet_requirements
from skills_core.skill import Skill, SkillFile, State
from skills_core.sources import Scope
from skills_core.uris import SCHEME, decode_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from skills_core.discovery import LoadedSource
    from skills_core.skill import SkillContent
    from skills_core.sources import Source

__all__ = ["Catalog", "build_catalog"]


@dataclass(frozen=True, slots=True, repr=False)
class Catalog:
    """All skills found, in the order of name and path; `active` are those that are served.

    `problems` are diagnostics about sources rather than skills; `settlement` is how names came out. Build one
    with `build_catalog`.
    """

    skills: tuple[Skill, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    settlement: Settlement = field(default=NOTHING_SETTLED, compare=False)
    active: tuple[Skill, ...] = field(init=False)
    _by_key: Mapping[str, Skill] = field(init=False, compare=False)
    _by_path: Mapping[str, Skill] = field(init=False, compare=False)
    _paths: tuple[str, ...] = field(init=False, compare=False)
    _depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        active = tuple(skill for skill in self.skills if skill.state is State.ACTIVE)
        object.__setattr__(self, "active", active)
        object.__setattr__(self, "_by_key", MappingProxyType({skill.key: skill for skill in active}))
        object.__setattr__(self, "_by_path", MappingProxyType({skill.path: skill for skill in active}))
        object.__setattr__(self, "_paths", tuple(sorted(self._by_path)))
        object.__setattr__(self, "_depth", max((skill.path.count("/") + 1 for skill in active), default=0))

    def __repr__(self) -> str:
        counts = Counter(str(skill.state) for skill in self.skills)
        return f"<Catalog {', '.join(f'{n} {state}' for state, n in sorted(counts.items())) or 'empty'}>"

    def skill(self, name: str) -> Skill:
        """Return the active skill that answers to `name`: its key, its path, or the URI of its SKILL.md.

        Raises:
            UnknownSkillError: no active skill does.
        """
        found = self._by_key.get(name) or self._by_path.get(name)
        if found is None and name.startswith(SCHEME):
            at = self.file(name)
            found = at[0] if at is not None and at[1] is at[0].content.main else None
        if found is None:
            other = next((skill for skill in self.skills if skill.name == name), None)
            because = f"it is {other.state} ({other.reason}: {other.detail})" if other is not None else ""
            raise UnknownSkillError(name, self._by_key, because)
        return found

    def file(self, uri: str) -> tuple[Skill, SkillFile] | None:
        """Return the file of an active skill that `uri` names, with the innermost skill that has it; else None."""
        path = decode_path(uri)
        if path is None:
            return None
        segments = path.split("/")
        # Only as many prefixes as the deepest skill path has: a URI of a thousand segments costs no more.
        for count in range(min(self._depth, len(segments) - 1), 0, -1):
            skill = self._by_path.get("/".join(segments[:count]))
            if skill is not None:
                file = skill.content.files.get("/".join(segments[count:]))
                if file is not None:
                    return skill, file
        return None

    def directory(self, uri: str) -> dict[str, tuple[Skill, SkillFile] | None] | None:
        """Return the direct children of the folder that `uri` names, by their names; None where it names none.

        A file comes with the innermost skill that has it, a folder as None. Folders above skills are folders too.
        """
        path = decode_path(uri)
        if path is None:
            return None
        children: dict[str, tuple[Skill, SkillFile] | None] = {}
        segments, is_folder = path.split("/"), False
        for count in range(1, min(self._depth, len(segments)) + 1):
            skill = self._by_path.get("/".join(segments[:count]))
            inside = "/".join(segments[count:])
            if skill is not None and (not inside or inside in skill.content.folders):
                is_folder = True
                children |= _children(skill, inside)
        below = path + "/"
        for number in range(bisect_left(self._paths, below), len(self._paths)):
            if not self._paths[number].startswith(below):
                break
            is_folder = True
            children.setdefault(self._paths[number][len(below) :].partition("/")[0], None)
        return dict(sorted(children.items())) if is_folder else None

    def file_of(self, skill: Skill, path: str) -> SkillFile:
        """Return the file at `path` (relative to the skill's folder, a leading `./` is forgiven).

        Raises:
            UnknownFileError: the skill has no such file.
        """
        file = skill.content.files.get(path.removeprefix("./"))
        if file is None:
            raise UnknownFileError(skill.key, path, skill.content.files)
        return file


def _children(skill: Skill, inside: str) -> dict[str, tuple[Skill, SkillFile] | None]:
    """Return what a folder within a skill holds."""
    prefix = f"{inside}/" if inside else ""
    children: dict[str, tuple[Skill, SkillFile] | None] = {}
    for folder in skill.content.folders:
        if folder.startswith(prefix) and "/" not in folder[len(prefix) :]:
            children[folder[len(prefix) :]] = None
    for path, file in skill.content.files.items():
        if path.startswith(prefix) and "/" not in path[len(prefix) :]:
            children[path[len(prefix) :]] = (skill, file)
    return children


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
    untrusted = {rank for rank, loaded in enumerate(sources) if not _is_trusted(loaded.source, environment)}
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
    skills = [_same(known.get(_place_of(skill)), skill) for skill in skills]
    skills.sort(key=lambda skill: (skill.name, skill.path, str(skill.source.root)))
    problems = tuple(problem for loaded in sources for problem in loaded.problems)
    return Catalog(tuple(skills), problems + environment.problems, settlement)


def _place_of(skill: Skill) -> tuple[Path, str]:
    return skill.source.root, skill.content.folder


def _same(old: Skill | None, new: Skill) -> Skill:
    return old if old is not None and old == new and _look_alike(old.content, new.content) else new


def _look_alike(old: SkillContent, new: SkillContent) -> bool:
    """Tell whether files that are equal also look the same on disk, so that they can be served from memory."""
    return old is new or all(old.files[path].fingerprint == file.fingerprint for path, file in new.files.items())


def _gated(candidate: Candidate, placement: Placement, environment: Environment) -> Skill:
    content, (key, path) = candidate.content, (placement.key, placement.path)
    notes = _duplicate_note(candidate, key) if placement.shares_name else ()
    exclusion = _exclusion(candidate, environment)
    if exclusion is None:
        return Skill(content, candidate.source, key, path, State.ACTIVE, notes=notes)
    reason, detail = exclusion.reason, exclusion.detail
    return Skill(content, candidate.source, key, path, State.EXCLUDED, reason, detail, notes)


def _exclusion(candidate: Candidate, environment: Environment) -> Exclusion | None:
    front = candidate.content.instructions.frontmatter
    name, key = candidate.content.name.lower(), (front.skill_key or candidate.content.name).lower()
    if any(_is_meant(candidate, each) for each in environment.disabled):
        return Exclusion(Reason.DISABLED, "the setting disabled names it")
    if environment.enabled and not any(_is_meant(candidate, each) for each in environment.enabled):
        return Exclusion(Reason.DISABLED, "the setting enabled does not name it")
    entry = environment.entries.get(key)
    if entry is not None and entry.enabled is False:
        return Exclusion(Reason.DISABLED, f"skills.json has enabled: false for {key}")
    if (
        candidate.source.scope is Scope.BUNDLED
        and environment.bundled is not None
        and environment.bundled.isdisjoint({name, key})
    ):
        return Exclusion(Reason.BUNDLED_NOT_ALLOWED, "allowBundled in skills.json does not name it")
    found = (evaluate_gate(gate, environment, entry, front.primary_env) for gate in front.gates)
    return next((exclusion for exclusion in found if exclusion is not None), None)


def _duplicate_note(candidate: Candidate, key: str) -> tuple[Diagnostic, ...]:
    message = f"another skill of this source is named {candidate.content.name!r} too, so this one answers to {key!r}"
    return (Diagnostic(Severity.WARNING, Reason.DUPLICATE_NAME, message, _where(candidate)),)


def _is_meant(candidate: Candidate, choice: str) -> bool:
    """Tell whether a setting means a skill: by its name, `tag:` with one of its tags, `source:` with scope or path."""
    front = candidate.content.instructions.frontmatter
    kind, colon, value = choice.partition(":")
    if colon and kind == "tag":
        return value.strip().lower() in {tag.lower() for tag in front.tags}
    if colon and kind == "source":
        return value.strip() in {candidate.source.scope.value, str(candidate.source.root)}
    return choice in {candidate.content.name, front.skill_key}


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


def _is_trusted(source: Source, environment: Environment) -> bool:
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
    return candidate.content.folder or candidate.content.name


def _where(candidate: Candidate) -> str:
    return printable("/".join(part for part in (str(candidate.source.root), candidate.content.folder) if part))
