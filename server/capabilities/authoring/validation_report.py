"""Format skills and the results of their validation for `validate` and `show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from server.hosting.status import advised_diagnostic, display_path
from skills_core.authoring.advice import ADVICE
from skills_core.diagnostics import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from server.capabilities.authoring.writing import AppliedFixes
    from skills_core.diagnostics import Diagnostic
    from skills_core.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The result of validating one skill; `path` is its folder, or the path that the user named, as printable text."""

    path: str
    valid: bool
    diagnostics: tuple[Diagnostic, ...]


def diagnostic_lines(diagnostic: Diagnostic) -> list[str]:
    """Return the lines for a diagnostic and the advice on how to fix it."""
    advice = ADVICE.get(diagnostic.code)
    return [str(diagnostic), *([f"  fix: {advice}"] if advice else [])]


def validation_object(results: Iterable[ValidationResult], applied: Iterable[AppliedFixes]) -> dict[str, Any]:
    """Return the object that `validate --json` prints."""
    return {
        "results": [
            {
                "path": result.path,
                "valid": result.valid,
                "diagnostics": [advised_diagnostic(diagnostic) for diagnostic in result.diagnostics],
            }
            for result in results
        ],
        "fixed": [
            {"path": each.path, "line": fix.line, "code": fix.code.value, "message": fix.message}
            for each in applied
            for fix in each.fixes
        ],
    }


def validation_lines(results: Sequence[ValidationResult], applied: Iterable[AppliedFixes]) -> Iterator[str]:
    """Yield the lines that `validate` prints without --json."""
    for each in applied:
        for fix in each.fixes:
            yield one_line(f"fixed: {each.path}:{fix.line}: {fix.message}")
    for result in results:
        for diagnostic in result.diagnostics:
            yield from diagnostic_lines(diagnostic)
    valid = sum(result.valid for result in results)
    yield f"{len(results)} checked: {valid} valid, {len(results) - valid} invalid"


def print_skill(skill: Skill) -> None:
    """Print the fields, files and diagnostics of a skill."""
    front = skill.frontmatter
    rows = {
        "name": skill.name,
        "state": skill.state.value + (f" ({skill.reason.value}: {skill.detail})" if skill.reason else ""),
        "description": front.description,
        "place": display_path(skill),
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
    lines += [line for diagnostic in skill.diagnostics for line in diagnostic_lines(diagnostic)]
    print("\n".join(lines))  # noqa: T201 - the command's answer
