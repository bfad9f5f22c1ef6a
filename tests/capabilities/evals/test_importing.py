"""`eval import`: sets of other tools become evals of a skill, and are run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capabilities.evals.conftest import Lab
from tests.core.evals.importing import sets
from tests.core.evals.importing.sets import write
from tests.server.cli.test_cli import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents of these tests are POSIX shell scripts")

GREETER = """
scenarios:
  - name: Greet Ada
    prompt: Greet Ada. Her name is in data/name.txt, and main.c is hers.
    setup:
      files:
        - {path: data/name.txt, content: Ada}
        - {path: src/main.c, content: int}
    assertions:
      - {type: output_contains, value: HELLO}
      - {type: file_exists, path: out.txt}
"""


@pytest.fixture
def skill(lab: Lab) -> Path:
    """A skill without evals."""
    (lab.skill / "evals/evals.json").unlink()
    return lab.skill


def imported(source: Path, skill: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return run("eval", "import", source, "--to", skill, *flags)


def test_a_set_of_another_tool_is_run(lab: Lab, skill: Path, tmp_path: Path) -> None:
    done = imported(write(tmp_path / "other", eval_dot_yaml=GREETER), skill)
    assert done.returncode == 0, done.stderr
    assert "dotnet/skills: 1 case and 1 trigger query are carried over" in done.stdout
    agent = 'cat data/name.txt src/main.c > "$3/seen"; [ -z "$2" ] || cat "$2/assets/template.txt" > "$3/out.txt"'
    report = lab.report(agent=lab.agent(agent))
    rates = {arm: report["run_summary"][arm]["pass_rate"]["mean"] for arm in ("with_skill", "without_skill")}
    assert rates == {"with_skill": 1.0, "without_skill": 0.0}
    # Input files lie where the other tool had them, whatever the prompt names.
    seen = lab.workspace / "iteration-1/eval-greet-ada/with_skill/run-1/outputs/seen"
    assert seen.read_text() == "Adaint"


def test_what_is_not_carried_over_is_listed(skill: Path, tmp_path: Path) -> None:
    root = write(tmp_path / "other", promptfooconfig_dot_yaml=sets.PROMPTFOO)
    done = imported(root, skill)
    assert done.returncode == 0
    assert "not carried over:\n" in done.stdout
    assert "  assertions of type javascript, which is code and is never run: tests[0]" in done.stdout
    assert "process.exit" not in (skill / "evals/evals.json").read_text()
    shown = json.loads(imported(root, skill, "--force", "--json").stdout)
    assert (shown["form"], shown["cases"], shown["queries"]) == ("promptfoo", 1, 1)
    assert any("javascript" in each for each in shown["not_carried_over"])


def test_a_dry_run_prints_what_would_be_written(skill: Path, tmp_path: Path) -> None:
    root = write(tmp_path / "other", tasks_dot_yaml=sets.SKILLJACK)
    done = imported(root, skill, "--dry-run")
    assert done.returncode == 0
    assert "would write evals/evals.json" in done.stdout
    assert '"prompt": "Will it rain?"' in done.stdout
    assert not (skill / "evals/evals.json").exists()
    shown = json.loads(imported(root, skill, "--dry-run", "--json").stdout)
    assert json.loads(shown["evals"]["evals/evals.json"])["skill_name"] == "greeter"


def test_evals_of_the_skill_stay_without_force(lab: Lab, tmp_path: Path) -> None:
    root = write(tmp_path / "other", tasks_dot_yaml=sets.SKILLJACK)
    before = (lab.skill / "evals/evals.json").read_bytes()
    done = imported(root, lab.skill)
    assert (done.returncode, (lab.skill / "evals/evals.json").read_bytes()) == (2, before)
    assert "evals.json: the file exists and is not replaced" in done.stderr
    assert imported(root, lab.skill, "--force").returncode == 0
    assert (lab.skill / "evals/evals.json").read_bytes() != before


@pytest.mark.parametrize(
    ("content", "says"),
    [("tasks: [{id: a, inputs: {prompt: p}}]", "nothing can be carried over"), ("a: 1", "none of the forms")],
)
def test_a_set_of_which_nothing_is_left_is_an_error(skill: Path, tmp_path: Path, content: str, says: str) -> None:
    done = imported(write(tmp_path / "other", eval_dot_yaml=content), skill)
    assert done.returncode == 2
    assert says in done.stderr
    assert not (skill / "evals/evals.json").exists()


def test_a_skill_may_be_called_import(lab: Lab) -> None:
    """`eval import` is a command; the folder is named by a path."""
    folder = lab.skill.rename(lab.skill.parent / "import")
    main = folder / "SKILL.md"
    main.write_text(main.read_text().replace("greeter", "import"))
    done = run("eval", f"{folder.parent}/./import", "--dry-run", "--agent-command", "true {prompt}")
    assert done.returncode == 0, done.stderr
