"""The command `skillserve report`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.capabilities.evals.report.workspaces import creator_workspace, full_workspace, write_iteration
from tests.server.cli.test_cli import run


@pytest.fixture
def half(tmp_path: Path) -> Path:
    root = tmp_path / "csv-analyzer-workspace"
    write_iteration(root / "iteration-1", {"a": ((True, False), (False, False))})
    return root


def test_the_page_is_written_beside_the_results(half: Path) -> None:
    done = run("report", half)
    assert (done.returncode, done.stdout) == (0, f"Report: {half / 'report.html'}\n")
    assert "csv-analyzer" in (half / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("write", [full_workspace, creator_workspace])
def test_all_files_are_written_for_both_kinds_of_workspaces(tmp_path: Path, write: object) -> None:
    assert callable(write)
    files = [tmp_path / "out" / name for name in ("page.html", "junit.xml", "summary.md")]
    page, xml, summary = files
    root = write(tmp_path / "workspace")
    done = run("report", root, "--output", page, "--junit", xml, "--markdown", summary)
    assert done.returncode == 0, done.stderr
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert ET.parse(xml).getroot().tag == "testsuites"  # noqa: S314 - our own
    assert summary.read_text(encoding="utf-8").startswith("# Evaluation of ")
    assert not (root / "report.html").exists()


@pytest.mark.parametrize(
    ("limits", "code", "said"),
    [
        (["--min-pass-rate", "0.5"], 0, "passed: pass rate of iteration-1 at least 0.50: measured 0.50"),
        (["--min-pass-rate", "0.6"], 1, "failed: pass rate of iteration-1 at least 0.60: measured 0.50"),
        (["--max-regression", "0"], 0, "passed: regression of iteration-1 at most 0.00: 0.50 after 0.00"),
        (["--min-pass-rate", "2"], 2, ""),
    ],
)
def test_the_exit_code_says_whether_the_gates_pass(half: Path, limits: list[str], code: int, said: str) -> None:
    done = run("report", half, *limits)
    assert done.returncode == code
    assert said in done.stdout


def test_without_a_verdict_the_exit_code_is_that_of_a_failure(half: Path) -> None:
    (half / "iteration-1/benchmark.json").unlink()
    done = run("report", half, "--min-pass-rate", "0")
    assert (done.returncode, done.stdout.splitlines()[1]) == (
        1,
        "no verdict: pass rate of iteration-1 at least 0.00: the iteration is not complete",
    )


def test_a_folder_without_results_is_wrong_use(tmp_path: Path) -> None:
    done = run("report", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no results here; expected folders such as iteration-1" in done.stderr
