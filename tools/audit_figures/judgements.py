"""Read judgements of findings: whether a person who read the place finds it right.

`judgements.tsv` has a line for each finding, and one without a rule for each skill without findings. `part` says in
which set of skills the finding was judged; `why` says what is wrong with a wrong one.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skills_core.audit.engine import RULES_BY_ID
from skills_core.audit.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Judgement", "Skills", "judgement_table", "read_judgements"]

_FILE: Final = Path(__file__).with_name("judgements.tsv")


class Skills(StrEnum):
    """The sets of skills: a sample, whose findings are all judged; all public skills without notes; the corpus."""

    TWENTY = "twenty"
    ALARMS = "alarms"
    CORPUS = "corpus"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A finding in a skill, and whether it is right; `rule` is empty for a skill without findings."""

    part: Skills
    repository: str
    commit: str
    skill: str
    path: str
    line: int | None
    rule: str
    severity: Severity | None
    right: bool
    why: str


def read_judgements(part: Skills) -> tuple[Judgement, ...]:
    """Return the judgements in one set of skills."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return tuple(_judgement(row) for row in rows if row["part"] == part)


def _judgement(row: dict[str, str]) -> Judgement:
    rule, verdict, why = row["rule"], row["verdict"], row["why"]
    expected = {"right", "wrong"} if rule else {""}
    if verdict not in expected or bool(why) is not (verdict == "wrong") or rule not in {"", *RULES_BY_ID}:
        raise ValueError(f"{row}: expected a known rule, `right`, or `wrong` and why")
    return Judgement(
        Skills(row["part"]),
        row["repository"],
        row["commit"],
        row["skill"],
        row["path"],
        int(row["line"]) if row["line"] else None,
        rule,
        Severity(row["severity"]) if rule else None,
        verdict == "right",
        why,
    )


def judgement_table(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Yield a table with a row for each rule, the most frequent first."""
    found = [each for each in judgements if each.rule]
    yield "| Rule | Errors | Warnings | Notes | Right | What is wrong with the others |"
    yield "|---|---|---|---|---|---|"
    for rule, _ in sorted(Counter(each.rule for each in found).items(), key=lambda item: (-item[1], item[0])):
        of_rule = [each for each in found if each.rule == rule]
        whys = "; ".join(sorted({each.why for each in of_rule if each.why}))
        yield f"| `{rule}` | {_counts(of_rule)} | {whys} |"
    yield f"| **all** | {_counts(found)} | |"


def _counts(found: Sequence[Judgement]) -> str:
    by_severity = Counter(each.severity for each in found)
    counts = [by_severity[severity] or "" for severity in sorted(Severity, key=lambda each: -each.rank)]
    return " | ".join(str(count) for count in (*counts, sum(each.right for each in found)))
