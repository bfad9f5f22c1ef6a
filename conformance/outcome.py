"""What one check came to."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many of a check's parts held, and in words what did not.

    `exempt` counts the parts that ask for something no product has; they are in neither of the other two figures.
    """

    passed: int
    total: int
    faults: tuple[str, ...] = ()
    exempt: int = 0

    @property
    def ok(self) -> bool:
        """Tell whether all of it held; a check without parts has shown nothing."""
        return not self.faults and self.passed == self.total > 0
