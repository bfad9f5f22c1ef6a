"""What the commands print: the documented JSON objects, and tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skills_core.catalog import Catalog
    from skills_core.diagnostics import Diagnostic
    from skills_core.skill import Skill

__all__ = ["folder_of", "print_skill", "skill_object", "status_object", "validation_object"]


def status_object(catalog: Catalog) -> dict[str, Any]:
    """Return what `status --json` prints."""
    return {
        "skills": [skill_object(skill) for skill in catalog.skills],
        "problems": [diagnostic_object(problem) for problem in catalog.problems],
    }


def skill_object(skill: Skill) -> dict[str, Any]:
    """Return one skill of `status --json`."""
    return {
        "name": skill.name,
        "key": skill.key,
        "state": skill.state.value,
        "reason": skill.reason.value if skill.reason else None,
        "detail": skill.detail or None,
        "scope": skill.source.scope.value,
        "path": folder_of(skill),
        "uri": skill.uri,
        "digest": skill.digest,
        "description": skill.description,
        "diagnostics": [diagnostic_object(diagnostic) for diagnostic in skill.diagnostics],
    }


def diagnostic_object(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as it stands in every JSON output."""
    return {
        "severity": diagnostic.severity.value,
        "code": diagnostic.code.value,
        "message": diagnostic.message,
        "path": diagnostic.path,
        "line": diagnostic.line,
    }


def validation_object(results: Iterable[tuple[str, bool, Iterable[Diagnostic]]]) -> dict[str, Any]:
    """Return what `validate --json` prints, from (path, valid, diagnostics)."""
    return {
        "results": [
            {"path": path, "valid": valid, "diagnostics": [diagnostic_object(d) for d in diagnostics]}
            for path, valid, diagnostics in results
        ]
    }


def folder_of(skill: Skill) -> str:
    """Return the skill's folder as printable text."""
    return printable(str(skill.source.root.joinpath(skill.content.folder)))


def print_skill(skill: Skill) -> None:
    """Print everything about one skill."""
    front = skill.frontmatter
    rows = {
        "name": skill.name,
        "state": skill.state.value + (f" ({skill.reason.value}: {skill.detail})" if skill.reason else ""),
        "description": front.description,
        "folder": folder_of(skill),
        "uri": skill.uri,
        "digest": skill.digest or "",
        "license": front.license or "",
        "version": front.version or "",
        "tags": ", ".join(front.tags),
        "allowed tools": " ".join(front.allowed_tools or ()),
    }
    lines = [f"{name + ':':<15}{value}" for name, value in rows.items() if value]
    lines += [
        "files:",
        *(f"  {file.size:>9}  {printable(file.path)}" for file in skill.content.files.values()),
    ]
    lines += [str(diagnostic) for diagnostic in skill.diagnostics]
    print("\n".join(lines))  # noqa: T201 - the command's answer
