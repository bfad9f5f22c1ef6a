"""The result of an audit: a finding, with its place, its fix and a fingerprint that survives edits elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from skills_core.diagnostics import one_line

__all__ = ["Finding", "Severity"]


class Severity(StrEnum):
    """How serious a finding is, from the least; the names are the levels of SARIF."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """A number to compare severities: a higher one is more serious."""
        return _RANKS[self]

    @property
    def demoted(self) -> Severity:
        """The next lower severity; a note stays a note."""
        return Severity.WARNING if self is Severity.ERROR else Severity.NOTE


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found in one place.

    `rule` is the id of the rule. `path` is relative to the skill's folder. `line` and `column` count from 1, columns in
    characters; both are None for a finding about a whole file. `fingerprint` stays the same while the file keeps its
    path and the line its text. `justification` is the reason of the suppression that covers the finding, None if none
    does.
    """

    rule: str
    severity: Severity
    path: str
    line: int | None
    column: int | None
    message: str
    fix: str
    fingerprint: str
    justification: str | None = None

    @property
    def suppressed(self) -> bool:
        """Whether a suppression with a reason covers the finding."""
        return self.justification is not None

    def __str__(self) -> str:
        """Format as compilers do: `path:line:column: severity[rule]: message`."""
        where = self.path if self.line is None else f"{self.path}:{self.line}:{self.column}"
        return one_line(f"{where}: {self.severity}[{self.rule}]: {self.message}")
