"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many parts of a check passed, and a message for each that failed.

    `exempt` counts the parts that do not apply to a product; `passed` and `total` exclude them.
    """

    passed: int
    total: int
    faults: tuple[str, ...] = ()
    exempt: int = 0

    @property
    def ok(self) -> bool:
        """Return whether all parts passed; a check without parts fails."""
        return not self.faults and self.passed == self.total > 0
