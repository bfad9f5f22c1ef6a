from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest

from skills_core.schedules.cron import MACROS
from skills_core.schedules.free_text import TimeMissing, find_time
from skills_core.schedules.parsing import parse_at, parse_every
from skills_core.schedules.when import ScheduleState

NOW = datetime.fromisoformat("2026-11-23T10:00:00+01:00")
BERLIN = "Europe/Berlin"
PAGE = (Path(__file__).parents[3] / "docs/reference/schedules.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def examples(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.parametrize("text", [each for row in rows("Once") for each in examples(row[1])])
def test_each_form_of_a_time_is_accepted(text: str) -> None:
    assert parse_at(text, NOW, BERLIN).at > NOW


def test_each_form_of_a_span_is_accepted() -> None:
    forms = examples(section("Every"))
    assert len(forms) > 8
    assert all(parse_every(text) for text in forms)


@pytest.mark.parametrize(
    ("reason", "request_text"), [(row[0], each) for row in rows("A time in a request") for each in examples(row[1])]
)
def test_each_request_is_asked_about_for_its_reason(reason: str, request_text: str) -> None:
    missing = find_time(request_text, NOW, BERLIN)
    assert isinstance(missing, TimeMissing)
    assert f"`{missing.reason}`" == reason


def test_the_page_names_each_state_and_each_named_expression() -> None:
    assert {row[0] for row in rows("States")} == {f"`{state}`" for state in ScheduleState}
    assert all(f"`{macro}`" in section("Cron") for macro in MACROS)
