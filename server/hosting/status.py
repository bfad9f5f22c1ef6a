"""What the commands print: the documented JSON objects, and tables for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from server.hosting.status_filter import StatusChoice
from server.listing.runs import runs_object
from skills_core.authoring.advice import ADVICE
from skills_core.diagnostics import printable
from skills_core.skill import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.config.settings import Settings
    from skills_core.catalog import Catalog, FoundSource
    from skills_core.diagnostics import Diagnostic
    from skills_core.library import Change
    from skills_core.skill import Skill

__all__ = [
    "change_object",
    "change_summary",
    "count_states",
    "diagnostic_object",
    "shown_place",
    "skill_object",
    "status_object",
]

_EVERYTHING = StatusChoice()


def status_object(catalog: Catalog, settings: Settings, choice: StatusChoice = _EVERYTHING) -> dict[str, Any]:
    """Return what `status --json` prints: the skills that are asked for, all problems and sources, runs and scripts."""
    # What runs programs is loaded only where somebody asks for it.
    from server.scripts.factory import script_status  # noqa: PLC0415

    return {
        "skills": [skill_object(skill) for skill in catalog.skills if choice.admits(skill)],
        "problems": [diagnostic_object(problem) for problem in catalog.problems],
        "sources": [_source_object(found) for found in catalog.sources],
        "runs": runs_object(settings),
        "scripts": script_status(settings),
    }


def change_object(change: Change) -> dict[str, Any]:
    """Return what `reload --json` prints: what a reload altered, by key, and how many skills have which state now."""
    keys = {what: [printable(skill.key) for skill in skills] for what, skills in _altered(change).items()}
    counts = {what: len(skills) for what, skills in keys.items()}
    return {**keys, "counts": counts, "states": count_states(change.after.skills)}


def change_summary(change: Change) -> str:
    """Return in words how many skills a reload altered."""
    return ", ".join(f"{len(skills)} {what}" for what, skills in _altered(change).items())


def _altered(change: Change) -> dict[str, list[Skill]]:
    updated = [skill for _, skill in change.updated]
    return {"added": [*change.added], "removed": [*change.removed], "updated": updated}


def count_states(skills: Iterable[Skill]) -> dict[str, int]:
    """Return how many skills there are in each state, zeros included."""
    counts = Counter(skill.state for skill in skills)
    return {state.value: counts[state] for state in State}


def skill_object(skill: Skill) -> dict[str, Any]:
    """Return one skill of `status --json`."""
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
        "path": shown_place(skill),
        "uri": skill.uri,
        "id": printable(skill.id) if skill.id else None,
        "digest": skill.digest,
        "last_modified": skill.last_modified,
        "description": skill.description,
        "primary_credential": {"name": credential.name, "set": credential.is_set} if credential else None,
        "model_invocable": skill.model_invocable,
        "user_invocable": skill.user_invocable,
        "diagnostics": [advised_object(diagnostic) for diagnostic in skill.diagnostics],
    }


def diagnostic_object(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as it stands in every JSON output."""
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


def advised_object(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic of a skill's files with what to do about it, null where there is no advice."""
    return {**diagnostic_object(diagnostic), "fix": ADVICE.get(diagnostic.code)}


def shown_place(skill: Skill) -> str:
    """Return the skill's folder, or the single file that it is, as printable text."""
    return printable(str(skill.source.root.joinpath(skill.content.place)))
