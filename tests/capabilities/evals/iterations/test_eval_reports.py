"""`eval` writes the report while it runs, and checks the gates of CI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from skills_core.disk.folders import NOT_A_SOURCE
from tests.capabilities.evals.conftest import AGENT, HELLO, Lab
from tests.capabilities.evals.report.test_page import parts_of
from tests.processes import becomes
from tests.server.cli.test_cli import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents of these tests are POSIX shell scripts")

WAITS = AGENT + '\nwhile [ "$1" = slow ] && [ ! -e "{log}.go" ]; do python3 -c "import time; time.sleep(.05)"; done\n'
"""An agent that waits on the prompt `slow` until a file exists."""


def page(lab: Lab) -> str:
    report = lab.workspace / "report.html"
    return report.read_text(encoding="utf-8") if report.exists() else ""


def has_passed(page: str) -> bool:
    """Tell whether an assertion of a run that the page holds has passed."""
    return any(passed for case in parts_of(page).values() for run in case["runs"] for _, passed, _ in run["checks"])


async def test_the_report_is_written_while_the_eval_runs_and_a_killed_one_does_not_claim_to_run(lab: Lab) -> None:
    lab.write_evals({"name": "quick", "assertions": [HELLO]}, {"prompt": "slow", "assertions": [HELLO]})
    agent = lab.agent(WAITS)
    with lab.start("--jobs", 1, agent=agent) as process:
        assert await becomes(lambda: "data-running" in page(lab) and has_passed(page(lab)))
        process.kill()
        process.wait(60)
    sign = lab.workspace / ".running"
    assert sign.exists()
    Path(f"{lab.log}.go").touch()
    assert lab.run(agent=agent).returncode == 0
    assert "data-running" not in page(lab)
    assert "Complete." in page(lab)
    assert not sign.exists()


async def test_the_page_of_an_interrupted_eval_says_so(lab: Lab) -> None:
    lab.write_evals({"prompt": "slow", "assertions": [HELLO]})
    with lab.start(agent=lab.agent(WAITS)) as process:
        assert await becomes(lambda: "data-running" in page(lab))
        process.terminate()
        process.wait(60)
    assert "Not complete: the work was interrupted." in page(lab)


@pytest.mark.parametrize(
    ("limits", "code", "said"),
    [
        (["--min-pass-rate", 1], 0, "passed: pass rate of iteration-1 at least 1.00: measured 1.00"),
        (["--max-regression", 0], 0, "passed: regression of iteration-1 at most 0.00: 1.00 after 0.00"),
        (["--min-pass-rate", "1.01"], 2, ""),
    ],
)
def test_the_gates_decide_the_exit_code(lab: Lab, limits: list[Any], code: int, said: str) -> None:
    done = lab.run("--ci", *limits)
    assert (done.returncode, said in done.stdout) == (code, True), done.stderr


def test_a_gate_that_fails_is_the_exit_code_and_stands_in_all_files(lab: Lab, tmp_path: Path) -> None:
    lab.write_evals({"assertions": [HELLO, {"text": "is long", "check": "exit 1"}]})
    files = [tmp_path / "out" / name for name in ("junit.xml", "summary.md")]
    done = lab.run("--ci", "--min-pass-rate", 0.6, "--junit", files[0], "--markdown", files[1])
    assert done.returncode == 1
    said = "failed: pass rate of iteration-1 at least 0.60: measured 0.50"
    assert said in done.stdout
    assert f"{lab.workspace / 'report.html'}" in done.stdout
    assert "at least 0.60" in page(lab)
    root = ET.parse(files[0]).getroot()  # noqa: S314 - our own
    assert (root.get("tests"), root.get("failures")) == ("4", "1")
    assert "**failed**" in files[1].read_text(encoding="utf-8")


def test_runs_without_a_result_pass_no_gate(lab: Lab) -> None:
    report = lab.report("--min-pass-rate", 0, agent=lab.agent("exit 1"))
    assert [gate["outcome"] for gate in report["gates"]] == ["no verdict"]


def test_other_results_in_the_workspace_are_not_judged(lab: Lab) -> None:
    (lab.workspace / "triggers-1").mkdir(parents=True)
    (lab.workspace / "triggers-1" / "config.json").write_text("{}")
    assert len(lab.report("--min-pass-rate", 0)["gates"]) == 1


def test_an_eval_changes_nothing_in_what_is_served(lab: Lab, tmp_path: Path) -> None:
    def listed() -> list[str]:
        return [run(*command, lab.skill.parent, "--json").stdout for command in (("validate",), ("status",))]

    before = listed()
    assert lab.run("--baseline", lab.skill).returncode == 0
    assert (lab.workspace / NOT_A_SOURCE).is_file()
    assert len([*lab.workspace.glob("snapshots/*/*/SKILL.md")]) == 2
    assert listed() == before
    audited = run("audit", lab.skill.parent, "--format", "json").stdout
    assert "workspace" not in audited.replace(str(tmp_path), "")
