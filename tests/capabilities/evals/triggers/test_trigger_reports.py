"""`triggers` writes the report and the files for CI, and its limits decide the exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from skills_core.disk.folders import NOT_A_SOURCE
from tests.capabilities.evals.report.test_page import parts_of
from tests.capabilities.evals.triggers.test_agent_triggers import Lab
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run

SHOULD = [(f"when is harbour {number} dry", True) for number in range(8)]
SHOULD_NOT = [(f"will it rain on day {number}", False) for number in range(8)]


@pytest.fixture
def lab(make_skill: MakeSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(make_skill("tides", description="Works out harbour times."), tmp_path, monkeypatch)
    made.ask(*SHOULD, *SHOULD_NOT)
    return made


posix = pytest.mark.skipif(sys.platform == "win32", reason="the template is run by sh")


@posix
def test_limits_files_transcripts_and_costs_of_a_test_with_an_agent(lab: Lab, tmp_path: Path) -> None:
    lab.ask(*SHOULD[:7], ("the shore at noon", True), *SHOULD_NOT)
    files = tmp_path / "junit.xml", tmp_path / "summary.md"
    flags = ("--runs", 1, "--min-recall", 0.9, "--max-false", 0, "--junit", files[0], "--markdown", files[1], "--ci")
    done = lab.run(*flags)
    assert done.returncode == 1, done.stderr
    assert "failed: recall at least 0.90: measured 0.88, 7 of 8" in done.stdout
    assert "passed: false triggers at most 0.00: measured 0.00, 0 of 8" in done.stdout
    assert "at most 17 runs of the agent" in done.stderr
    assert "spent: 17 runs, " in done.stdout
    root = ET.parse(files[0]).getroot()  # noqa: S314 - our own
    assert (root.get("tests"), root.get("failures")) == ("16", "1")
    assert "**failed**" in files[1].read_text(encoding="utf-8")
    first = lab.results()["results"][0]
    (path,) = first["transcripts"]
    assert (lab.workspace / "triggers-1" / path).is_file()
    page = (lab.workspace / "report.html").read_text(encoding="utf-8")
    (run_shown,) = parts_of(page)["query-1"]["runs"]
    assert run_shown["title"].startswith("Run 1: ")
    assert run_shown["transcript"]["head"]
    assert "data-running" not in page
    assert (lab.workspace / NOT_A_SOURCE).is_file()


@posix
@pytest.mark.parametrize("errors", [True, False])
def test_without_enough_outcomes_no_limit_is_kept(lab: Lab, errors: bool) -> None:  # noqa: FBT001 - a case
    if errors:
        lab.template = "exit 3 # {prompt}"
    else:
        lab.ask(*SHOULD[:1], *SHOULD_NOT)
    done = lab.run("--runs", 1, "--min-recall", 0, "--json")
    assert done.returncode == 1
    if not errors:
        assert [gate["outcome"] for gate in json.loads(done.stdout)["gates"]] == ["no verdict"]


@pytest.mark.parametrize(("recall", "code", "mark"), [(0, 0, "passed"), (1, 1, "failed")])
def test_the_ranks_have_the_same_files(
    lab: Lab, make_skill: MakeSkill, tmp_path: Path, recall: float, code: int, mark: str
) -> None:
    make_skill("weather", description="Says whether it will rain.")
    lab.ask(("will it rain on day 99", True), *SHOULD, *SHOULD_NOT)
    files = tmp_path / "junit.xml", tmp_path / "summary.md"
    flags = ("--no-model", "--catalog", lab.skill.parent, "--min-recall", recall, "--ci")
    done = run("triggers", lab.skill, *flags, "--junit", files[0], "--markdown", files[1])
    assert done.returncode == code, done.stderr
    text = files[1].read_text(encoding="utf-8")
    assert f"**{mark}**" in text
    assert "below weather" in text
    failures = [each.get("message") for each in ET.parse(files[0]).getroot().iter("failure")]  # noqa: S314 - our own
    assert any("below weather" in str(message) for message in failures)
