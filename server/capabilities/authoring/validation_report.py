"""Format the results of a validation for `validate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from server.hosting.status import advised_diagnostic, diagnostic_lines
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from server.capabilities.authoring.apply_fixes import AppliedFixes
    from skills_core.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The result of validating one skill; `path` is its folder, or the path that the user named, as printable text."""

    path: str
    valid: bool
    diagnostics: tuple[Diagnostic, ...]


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
