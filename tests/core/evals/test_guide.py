"""The figures in the guide on evals are those that the statistics give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skills_core.evals.statistics import cases_for_power, mcnemar_exact, wilson

GUIDE = (Path(__file__).parents[3] / "docs/guides/evaluate-a-skill.md").read_text(encoding="utf-8")

RATES = re.findall(r"^\| (\d+) of (\d+) \| (\d+) % to (\d+) % \|$", GUIDE, re.MULTILINE)
TESTS = re.findall(r"^\| (\d+) \| (\d+) \| ([\d.]+) \| ([\w ]+) \|$", GUIDE, re.MULTILINE)
POWERS = re.findall(r"^\| (\d+) % \| (\d+) % \| (\d+) \|$", GUIDE, re.MULTILINE)


def test_each_table_has_rows() -> None:
    assert [len(rows) for rows in (RATES, TESTS, POWERS)] == [3, 4, 4]


@pytest.mark.parametrize(("passed", "total", "low", "high"), RATES)
def test_intervals(passed: str, total: str, low: str, high: str) -> None:
    interval = wilson(int(passed), int(total))
    assert (round(interval.low * 100), round(interval.high * 100)) == (int(low), int(high))


@pytest.mark.parametrize(("differ", "better", "p", "verdict"), TESTS)
def test_verdicts(differ: str, better: str, p: str, verdict: str) -> None:
    exact = mcnemar_exact(int(better), int(differ) - int(better))
    assert exact == pytest.approx(float(p), abs=0.00051)
    assert verdict == ("it helps" if exact < 0.05 else "no verdict")


@pytest.mark.parametrize(("with_skill", "without", "cases"), POWERS)
def test_cases(with_skill: str, without: str, cases: str) -> None:
    assert cases_for_power(int(with_skill) / 100, int(without) / 100) == int(cases)
