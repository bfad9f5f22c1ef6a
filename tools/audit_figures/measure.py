"""Count what each rule finds in labelled skills, rightly and wrongly, and what it misses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.audit.engine import RULES_BY_ID, audit
from skills_core.audit.findings import Finding, Severity
from tools.audit_figures.manifests import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.audit_figures.manifests import Case

__all__ = ["Counts", "Figures", "is_alarm", "measure"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Cases that a rule finds rightly, finds wrongly, and misses."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float | None:
        """The part of what the rule finds that is right; None if it finds nothing."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        """The part of what the rule should find that it finds; None if it should find nothing."""
        return self.right / (self.right + self.missed) if self.right + self.missed else None


@dataclass(slots=True)
class Figures:
    """The figures of a set of cases: by rule, and for whole skills of each kind."""

    rules: dict[str, Counts] = field(default_factory=dict)
    cases: Counter[Kind] = field(default_factory=Counter)
    found: Counter[Kind] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def total(self) -> Counts:
        """The sums over all rules."""
        return Counts(
            *(sum(getattr(each, name) for each in self.rules.values()) for name in ("right", "wrong", "missed"))
        )


def is_alarm(finding: Finding) -> bool:
    """Tell whether a finding counts: a note does only for a rule whose findings are notes."""
    return finding.severity.rank >= min(RULES_BY_ID[finding.rule].severity.rank, Severity.WARNING.rank)


def measure(cases: Iterable[Case]) -> Figures:
    """Audit the cases and count."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    figures = Figures()
    for case in cases:
        alarms = {finding.rule for finding in audit(case.skill) if is_alarm(finding)}
        allowed = case.also.union(*case.expected)
        right.update(alarms & allowed)
        wrong.update(alarms - allowed)
        absent = [group[0] for group in case.expected if not alarms & set(group)]
        missed.update(absent)
        figures.cases[case.kind] += 1
        figures.found[case.kind] += bool(alarms) if case.kind is Kind.BENIGN else not absent
        figures.faults += [f"{case.name}: {rule} is wrong" for rule in sorted(alarms - allowed)]
        figures.faults += [f"{case.name}: {rule} is missing" for rule in absent]
    figures.rules = {rule: Counts(right[rule], wrong[rule], missed[rule]) for rule in RULES_BY_ID}
    return figures
