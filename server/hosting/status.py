"""The status of all skills as JSON, what filters it, and a change as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Self, TypeVar

from server.capabilities import CAPABILITIES
from skills_core.authoring.advice import ADVICE
from skills_core.diagnostics import Reason, counted, one_line, printable
from skills_core.disk.sources import Scope
from skills_core.errors import SkillsError, similar_to
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog, FoundSource
    from skills_core.diagnostics import Diagnostic
    from skills_core.live.library import Change
    from skills_core.loading.index import IndexState
    from skills_core.skills.skill import Skill

MAX_VALUES = 50
MAX_PATTERN = 200
# A pattern is tried on every skill.

EnumT = TypeVar("EnumT", bound=StrEnum)


class StatusFilterError(SkillsError):
    """A filter has an invalid value; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class StatusFilter:
    """A filter for skills: each kind of value is a condition, which one of its values has to meet.

    A kind without values admits every skill. `names` are case-sensitive patterns with `*`, `?` and `[…]`, which are
    matched against the name and the key.
    """

    states: tuple[State, ...] = ()
    reasons: tuple[Reason, ...] = ()
    scopes: tuple[Scope, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Self:
        """Parse the lists of strings under `state`, `reason`, `scope` and `name`; a string is a list of one.

        Raises:
            StatusFilterError: a key or a value is unknown, or a value is not a list of strings.
        """
        unknown = sorted(set(values) - {"state", "reason", "scope", "name"})
        if unknown:
            raise StatusFilterError(f"unknown argument {unknown[0][:100]!r}; expected state, reason, scope or name")
        return cls(
            states=_members(State, "state", values),
            reasons=_members(Reason, "reason", values),
            scopes=_members(Scope, "scope", values),
            names=tuple(_texts("name", values)),
        )

    def admits(self, skill: Skill) -> bool:
        """Return whether a skill passes the filter."""
        return (
            (not self.states or skill.state in self.states)
            and (not self.reasons or skill.reason in self.reasons)
            and (not self.scopes or skill.source.scope in self.scopes)
            and (not self.names or any(_matches(skill, pattern) for pattern in self.names))
        )


def _matches(skill: Skill, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (skill.name, skill.key, skill.skill_key))


def _members(kind: type[EnumT], key: str, values: Mapping[str, object]) -> tuple[EnumT, ...]:
    known: dict[str, EnumT] = {member.value: member for member in kind}
    members: list[EnumT] = []
    for text in _texts(key, values):
        if text not in known:
            raise StatusFilterError(f"{key}: unknown value {text!r}; expected {_expected(text, known)}")
        members.append(known[text])
    return tuple(members)


def _expected(text: str, known: Mapping[str, object]) -> str:
    """Return similar values, or all values if none is similar."""
    return " or ".join(map(repr, similar_to(text, known))) or f"one of {', '.join(known)}"


def _texts(key: str, values: Mapping[str, object]) -> Sequence[str]:
    given = values.get(key)
    texts = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise StatusFilterError(f"{key} must be a list of strings")
    if len(texts) > MAX_VALUES or any(len(text) > MAX_PATTERN for text in texts):
        raise StatusFilterError(f"{key} may have at most {MAX_VALUES} values of {MAX_PATTERN} characters")
    return texts


_EVERYTHING = StatusFilter()


def status_object(catalog: Catalog, settings: Settings, choice: StatusFilter = _EVERYTHING) -> dict[str, Any]:
    """Return what `status --json` prints: the chosen skills, all problems and sources, and those of capabilities."""
    return {
        "skills": [skill_object(skill) for skill in catalog.skills if choice.admits(skill)],
        "problems": [diagnostic_object(problem) for problem in catalog.problems],
        "sources": [_source_object(found) for found in catalog.sources],
        **{each.name: each.status.object(settings) for each in CAPABILITIES if each.status is not None},
    }


def capability_lines(settings: Settings) -> list[str]:
    """Return what `status` prints of the capabilities, such as whether clients can run scripts."""
    parts = (each.status for each in CAPABILITIES if each.status is not None)
    return [one_line(line) for part in parts for line in part.lines(part.object(settings))]


def index_object(state: IndexState | None) -> dict[str, Any]:
    """Return what `status --json` prints of the index of skills: nothing if there is none."""
    return {} if state is None else {"index": {**state._asdict(), "path": printable(str(state.path))}}


def index_lines(state: IndexState | None) -> list[str]:
    """Return what `status` prints of the index of skills."""
    if state is None:
        return []
    entries = "it cannot be read now" if state.entries is None else counted(state.entries, "entry", "entries")
    return [one_line(f"index of skills: {state.path}, {state.size / 1e6:.1f} MB, {entries}")]


def change_object(change: Change) -> dict[str, Any]:
    """Return what `reload --json` prints: the keys of changed skills, and the number of skills in each state."""
    keys = {what: [printable(skill.key) for skill in skills] for what, skills in _changed_skills(change).items()}
    counts = {what: len(skills) for what, skills in keys.items()}
    return {**keys, "counts": counts, "states": count_states(change.after.skills)}


def change_summary(change: Change) -> str:
    """Return in words how many skills a reload added, removed and updated."""
    return ", ".join(f"{len(skills)} {what}" for what, skills in _changed_skills(change).items())


def _changed_skills(change: Change) -> dict[str, list[Skill]]:
    updated = [skill for _, skill in change.updated]
    return {"added": [*change.added], "removed": [*change.removed], "updated": updated}


def count_states(skills: Iterable[Skill]) -> dict[str, int]:
    """Count the skills in each state, zeros included."""
    counts = Counter(skill.state for skill in skills)
    return {state.value: counts[state] for state in State}


def skill_object(skill: Skill) -> dict[str, Any]:
    """Return the entry of a skill in `status --json`."""
    credential = skill.credential
    return {
        "name": printable(skill.name),
        "key": printable(skill.key),
        "skill_key": printable(skill.skill_key),
        "state": skill.state.value,
        "reason": skill.reason.value if skill.reason else None,
        "detail": printable(skill.detail) or None,
        "scope": skill.source.scope.value,
        "source": printable(str(skill.source.root)),
        "path": display_path(skill),
        "uri": skill.uri,
        "id": printable(skill.id) if skill.id else None,
        "digest": skill.digest,
        "last_modified": skill.last_modified,
        "description": skill.description,
        "version": skill.frontmatter.version,
        "primary_credential": {"name": credential.name, "set": credential.is_set} if credential else None,
        "model_invocable": skill.model_invocable,
        "user_invocable": skill.user_invocable,
        "diagnostics": [advised_diagnostic(diagnostic) for diagnostic in skill.diagnostics],
    }


def diagnostic_object(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as all JSON output contains it."""
    return {
        "severity": diagnostic.severity.value,
        "code": diagnostic.code.value,
        "message": printable(diagnostic.message),
        "path": diagnostic.path,
        "line": diagnostic.line,
    }


def _source_object(found: FoundSource) -> dict[str, Any]:
    return {
        "root": printable(str(found.source.root)),
        "scope": found.source.scope.value,
        "strictness": found.source.strictness.value,
        "trusted": found.trusted,
        "exists": found.exists,
        "skills": found.skills,
    }


def advised_diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic with advice on how to fix it, null if there is none."""
    return {**diagnostic_object(diagnostic), "fix": ADVICE.get(diagnostic.code)}


def diagnostic_lines(diagnostic: Diagnostic) -> list[str]:
    """Return the lines for a diagnostic and the advice on how to fix it."""
    advice = ADVICE.get(diagnostic.code)
    return [str(diagnostic), *([f"  fix: {advice}"] if advice else [])]


def display_path(skill: Skill) -> str:
    """Return the path of the skill's folder, or of its file if it is a single file, as printable text."""
    return printable(str(skill.source.root.joinpath(skill.content.place)))
