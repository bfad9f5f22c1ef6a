"""The figures of the audit on labelled skills do not get worse, and the labels are sound."""

from __future__ import annotations

from collections import Counter

import pytest

from skills_core.audit.engine import RULES_BY_ID
from skills_core.audit.findings import Severity
from tools.audit_figures.judgements import Skills, read_judgements
from tools.audit_figures.manifests import Kind, Part, read_cases
from tools.audit_figures.measure import Counts, measure

CASES = read_cases()

FLOORS = {
    Part.TRAIN: {"attacks": 87, "weaknesses": 14, "false alarms": 1, "precision": 0.97, "recall": 0.97},
    Part.HELD_OUT: {"attacks": 53, "weaknesses": 6, "false alarms": 1, "precision": 0.98, "recall": 0.95},
}
"""What was reached. Raise a figure when it rises; do not lower one to make a change pass."""


@pytest.mark.parametrize("part", Part)
def test_the_figures_do_not_get_worse(part: Part) -> None:
    figures = measure(case for case in CASES if case.part is part)
    floor = FLOORS[part]
    assert figures.found[Kind.HOSTILE] >= floor["attacks"], figures.faults
    assert figures.found[Kind.QUALITY] >= floor["weaknesses"], figures.faults
    assert figures.found[Kind.BENIGN] <= floor["false alarms"], figures.faults
    assert (figures.total.precision or 0) >= floor["precision"], figures.faults
    assert (figures.total.recall or 0) >= floor["recall"], figures.faults


def test_the_set_is_large_and_a_part_is_held_out() -> None:
    kinds = Counter(case.kind for case in CASES)
    assert kinds[Kind.HOSTILE] >= 80
    assert kinds[Kind.BENIGN] >= 60
    assert sum(case.part is Part.HELD_OUT for case in CASES) >= len(CASES) // 4


def test_every_name_of_a_case_is_unique_and_every_label_is_a_rule() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    labels = {rule for case in CASES for group in case.expected for rule in group}.union(*(case.also for case in CASES))
    assert labels <= RULES_BY_ID.keys()


def test_every_rule_has_a_case_that_it_must_find() -> None:
    without = {"invalid-suppression", "data-to-outside", "description-without-when"}
    # tests of their own cover these
    assert {*RULES_BY_ID} - {rule for case in CASES for group in case.expected for rule in group} <= without


def test_a_benign_case_expects_nothing_and_any_other_case_something() -> None:
    assert all(bool(case.expected) is (case.kind is not Kind.BENIGN) for case in CASES)


def test_counts_without_any_finding_have_no_precision() -> None:
    assert Counts().precision is None
    assert Counts(missed=1).recall == 0
    assert Counts(right=1, wrong=1).precision == 0.5


def test_twenty_public_skills_are_judged_and_every_error_of_all() -> None:
    judged = {part: read_judgements(part) for part in Skills}
    assert len({(each.repository, each.skill) for each in judged[Skills.TWENTY]}) == 20
    errors = [each for each in judged[Skills.ALARMS] if each.severity is Severity.ERROR]
    assert errors
    assert all(each.right for each in errors)
    assert not [each for each in judged[Skills.CORPUS] if each.severity is Severity.ERROR]
