"""What the commands print: the documented JSON objects, and tables for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skills_core.authoring.advice import ADVICE
from skills_core.diagnostics import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from server.mending import Mended
    from skills_core.catalog import Catalog
    from skills_core.diagnostics import Diagnostic
    from skills_core.skill import Skill

__all__ = [
    "Result",
    "diagnostic_object",
    "folder_of",
    "print_skill",
    "skill_object",
    "status_object",
    "validation_lines",
    "validation_object",
]


@dataclass(frozen=True, slots=True)
class Result:
    """What the check of one skill found; `path` is its folder, or what was named, as printable text."""

    path: str
    valid: bool
    diagnostics: tuple[Diagnostic, ...]


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
        "diagnostics": [advised_object(diagnostic) for diagnostic in skill.diagnostics],
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


def advised_object(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic of a skill's files with what to do about it, null where there is no advice."""
    return {**diagnostic_object(diagnostic), "fix": ADVICE.get(diagnostic.code)}


def advised_lines(diagnostic: Diagnostic) -> list[str]:
    """Return the lines that tell people of a diagnostic, and what to do about it."""
    advice = ADVICE.get(diagnostic.code)
    return [str(diagnostic), *([f"  fix: {advice}"] if advice else [])]


def validation_object(results: Iterable[Result], mended: Iterable[Mended]) -> dict[str, Any]:
    """Return what `validate --json` prints."""
    return {
        "results": [
            {
                "path": result.path,
                "valid": result.valid,
                "diagnostics": [advised_object(diagnostic) for diagnostic in result.diagnostics],
            }
            for result in results
        ],
        "fixed": [
            {"path": each.path, "line": fix.line, "code": fix.code.value, "message": fix.message}
            for each in mended
            for fix in each.fixes
        ],
    }


def validation_lines(results: Sequence[Result], mended: Iterable[Mended]) -> Iterator[str]:
    """Yield what `validate` prints for people."""
    for each in mended:
        for fix in each.fixes:
            yield one_line(f"fixed: {each.path}:{fix.line}: {fix.message}")
    for result in results:
        for diagnostic in result.diagnostics:
            yield from advised_lines(diagnostic)
    valid = sum(result.valid for result in results)
    yield f"{len(results)} checked: {valid} valid, {len(results) - valid} invalid"


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
    lines += [line for diagnostic in skill.diagnostics for line in advised_lines(diagnostic)]
    print("\n".join(lines))  # noqa: T201 - the command's answer
