"""The evals of the sample skills can be trusted: each check decides, and expects what the files really hold.

The figures in the guide on evals are those that the statistics give.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skills_core import load_skills
from skills_core.evals.statistics import paired_effect, wilson
from skills_core.skills.withheld_files import files_for_models, is_eval_path
from skills_core.testing import mock_environment
from tests.core.evals.sample_outputs import GOOD_AND_BAD, SAMPLES, Files, changelog, changelog_of

SKILLS = ("csv-insights", "release-notes", "sql-guard")

NEEDS_A_SHELL = pytest.mark.skipif(
    sys.platform == "win32" or not shutil.which("python3"), reason="the checks are commands of a POSIX shell"
)


def read(skill: str, name: str) -> Any:
    return json.loads((SAMPLES / skill / "evals" / name).read_text(encoding="utf-8"))


class SampleCase(NamedTuple):
    """A case of a sample skill, with the checks of its assertions by their texts."""

    skill: str
    name: str
    prompt: str
    checks: dict[str, str]

    @property
    def good(self) -> Files:
        return GOOD_AND_BAD[self.skill, self.name][0]

    @property
    def bad(self) -> Files:
        return GOOD_AND_BAD[self.skill, self.name][1]


def checks_of(case: dict[str, Any]) -> dict[str, str]:
    return {each["text"]: each["check"] for each in case["assertions"] if isinstance(each, dict)}


CASES = [
    SampleCase(skill, case["name"], case["prompt"], checks_of(case))
    for skill in SKILLS
    for case in read(skill, "evals.json")["evals"]
]
EACH_CASE = pytest.mark.parametrize("case", CASES, ids=[f"{case.skill}-{case.name}" for case in CASES])
EACH_SKILL = pytest.mark.parametrize("skill", SKILLS)


def verdicts(case: SampleCase, files: Files, outputs: Path) -> dict[str, tuple[bool, str]]:
    """Run the checks of a case as an eval does: with `sh -c` in the folder of the outputs."""
    outputs.mkdir()
    for name, text in files.items():
        (outputs / name).write_text(text, encoding="utf-8", newline="")
    found = {}
    for text, command in case.checks.items():
        done = subprocess.run(["sh", "-c", command], cwd=outputs, capture_output=True, timeout=60, check=False)
        found[text] = (done.returncode == 0, done.stdout.decode("utf-8").strip())
    return found


@NEEDS_A_SHELL
@EACH_CASE
def test_each_check_passes_on_a_good_output_and_says_what_it_saw(case: SampleCase, tmp_path: Path) -> None:
    found = verdicts(case, case.good, tmp_path / "outputs")
    assert {text: evidence for text, (passed, evidence) in found.items() if not passed} == {}
    assert all(evidence for _, evidence in found.values())


@NEEDS_A_SHELL
@EACH_CASE
def test_each_check_fails_on_a_bad_output(case: SampleCase, tmp_path: Path) -> None:
    found = verdicts(case, case.bad, tmp_path / "outputs")
    assert {text: evidence for text, (passed, evidence) in found.items() if passed} == {}


@NEEDS_A_SHELL
@EACH_CASE
def test_each_check_fails_without_any_output(case: SampleCase, tmp_path: Path) -> None:
    found = verdicts(case, {}, tmp_path / "outputs")
    assert [text for text, (passed, _) in found.items() if passed] == []


@NEEDS_A_SHELL
def test_a_file_among_the_outputs_cannot_take_the_place_of_a_module_that_a_check_imports(tmp_path: Path) -> None:
    hostile = {f"{name}.py": "raise SystemExit(0)\n" for name in ("re", "csv", "json", "sqlite3", "sitecustomize")}
    found = verdicts(CASES[0], CASES[0].bad | hostile, tmp_path / "outputs")
    assert [text for text, (passed, _) in found.items() if passed] == []


@NEEDS_A_SHELL
def test_a_script_among_the_outputs_cannot_write_outside_of_the_database_that_a_check_made(tmp_path: Path) -> None:
    (case,) = [case for case in CASES if case.name == "expire-old-orders"]
    outside = tmp_path / "outside.db"
    script = f"attach database '{outside}' as other; create table other.t as select 1; vacuum into '{outside}2';"
    verdicts(case, {"expire.sql": script}, tmp_path / "outputs")
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]


@EACH_SKILL
def test_a_set_has_three_to_five_cases_of_which_code_decides_most_and_a_judge_the_rest(skill: str) -> None:
    evals = read(skill, "evals.json")
    assert evals["skill_name"] == skill
    assert 3 <= len(evals["evals"]) <= 5
    for case in evals["evals"]:
        assert len(checks_of(case)) >= 2
        assert case["expected_output"]
    assert any(isinstance(each, str) for case in evals["evals"] for each in case["assertions"])
    for key in ("id", "name", "prompt"):
        assert len({case[key] for case in evals["evals"]}) == len(evals["evals"])


@EACH_SKILL
def test_each_input_file_is_there_is_named_in_the_prompt_and_none_is_left_over(skill: str) -> None:
    used = {file for case in read(skill, "evals.json")["evals"] for file in case["files"]}
    there = {path.relative_to(SAMPLES / skill).as_posix() for path in (SAMPLES / skill / "evals/files").iterdir()}
    assert used == there
    for case in read(skill, "evals.json")["evals"]:
        assert all(Path(file).name in case["prompt"] for file in case["files"])


@EACH_CASE
def test_each_file_that_a_check_reads_is_asked_for_by_the_prompt(case: SampleCase) -> None:
    read_by_checks = {
        name
        for command in case.checks.values()
        for name in re.findall(r'(?:open|run|bare)\((?:db, )?"([\w.-]+)"', command)
    }
    assert read_by_checks
    assert [name for name in read_by_checks if name not in case.prompt] == []


def test_the_figures_that_the_checks_expect_are_those_of_the_files() -> None:
    def profile(file: str, *options: str) -> Any:
        script = SAMPLES / "csv-insights/scripts/profile_csv.py"
        command: list[str | Path] = [sys.executable, script, SAMPLES / "csv-insights/evals/files" / file, *options]
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)

    orders = profile("orders_2025.csv", "--top", "500")
    columns = {each["name"]: each for each in orders["columns"]}
    assert (orders["rows"], orders["duplicate_rows"]) == (240, 4)
    assert columns["country"]["missing"] == 12
    assert sum(each["count"] for each in columns["quantity"]["top"] if each["value"] == "9999") == 3
    assert sum(each["count"] for each in columns["amount"]["top"] if "," in each["value"]) == 9
    customers = profile("customers_export.csv")
    email = next(each for each in customers["columns"] if each["name"] == "email")
    assert (customers["rows"], customers["duplicate_rows"], email["missing"]) == (63, 3, 9)


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_the_exported_repository_can_be_imported(tmp_path: Path) -> None:
    assert changelog_of(tmp_path / "repository").strip() == changelog().strip()
    tags = subprocess.run(["git", "-C", tmp_path / "repository", "tag"], capture_output=True, text=True, check=True)
    assert tags.stdout.split() == ["v1.2.0", "v1.3.0", "v1.3.0-rc.1"]


@EACH_SKILL
def test_a_model_that_performs_a_sample_sees_none_of_its_evals(skill: str) -> None:
    (found,) = [each for each in load_skills(SAMPLES, mock_environment()).skills if each.name == skill]
    assert any(is_eval_path(found.content, path) for path in found.content.files)
    assert [path for path in files_for_models(found.content) if "evals" in path] == []


@EACH_SKILL
def test_what_a_judge_decides_can_be_quoted(skill: str) -> None:
    """A PASS needs a quote, and nothing can be quoted for what is absent: code decides that."""
    for case in read(skill, "evals.json")["evals"]:
        for assertion in case["assertions"]:
            assert not (isinstance(assertion, str) and re.search(r"\b(does not|do not|neither|none)\b", assertion))


GUIDE = (Path(__file__).parents[3] / "docs/guides/evaluate-a-skill.md").read_text(encoding="utf-8")

RATES = re.findall(r"^\| (\d+) of (\d+) \| (\d+) % to (\d+) % \|$", GUIDE, re.MULTILINE)
TESTS = re.findall(r"^\| (\d+) \| (\d+) \| ([\d.]+) \| ([\w ]+) \|$", GUIDE, re.MULTILINE)


def test_each_table_has_rows() -> None:
    assert [len(rows) for rows in (RATES, TESTS)] == [3, 4]


@pytest.mark.parametrize(("passed", "total", "low", "high"), RATES)
def test_intervals(passed: str, total: str, low: str, high: str) -> None:
    interval = wilson(int(passed), int(total))
    assert (round(interval.low * 100), round(interval.high * 100)) == (int(low), int(high))


@pytest.mark.parametrize(("differ", "better", "p", "verdict"), TESTS)
def test_verdicts(differ: str, better: str, p: str, verdict: str) -> None:
    found = paired_effect([1.0] * int(better) + [-1.0] * (int(differ) - int(better)))
    assert found.p_value == pytest.approx(float(p), abs=0.00051)
    assert verdict == ("it helps" if found.direction else "no verdict")
