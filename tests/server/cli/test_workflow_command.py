"""`skillserve workflow validate`, and the documentation of workflows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from skills_core.runs.workflow.conditions import Operator
from skills_core.runs.workflow.document import MAX_LEVELS, MAX_STEPS
from skills_core.runs.workflow.faults import FaultCode
from skills_core.runs.workflow.model import StepKind, StepStatus, WorkflowProblem
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import DIAGNOSTIC, REPOSITORY, run

DOCUMENTATION = (REPOSITORY / "docs" / "guides" / "run-workflows.md").read_text(encoding="utf-8")
SAMPLES = sorted((REPOSITORY / "docs" / "workflows").glob("*.yaml"))

RESULTS = {
    "type": "object",
    "required": ["results"],
    "properties": {
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["path", "valid", "name", "digest", "diagnostics"],
                "properties": {
                    "valid": {"type": "boolean"},
                    "digest": {"type": ["string", "null"]},
                    "diagnostics": {
                        "type": "array",
                        "items": {**DIAGNOSTIC, "required": [*DIAGNOSTIC["required"], "field", "excerpt"]},
                    },
                },
            },
        }
    },
}

GOOD = "steps: [{kind: skill, name: A, target: fine}]\n"
BAD = """\
steps:
- kind: skill
  name: A
  target: fien
- kind: conditional
  name: C
  condition: "{{steps.A.output}} conains 'x'"
  subSteps: [{kind: skill, name: B, target: fine}]
"""


@pytest.fixture
def flows(tmp_path: Path, make_skill: MakeSkill) -> Path:
    make_skill("fine")
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(BAD)
    return tmp_path


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_sample_workflows_have_no_diagnostics(path: Path) -> None:
    done = run("workflow", "validate", path, REPOSITORY / "sample_skills")
    assert (done.returncode, done.stdout) == (0, "1 checked: 1 valid, 0 invalid\n")


def test_the_example_of_the_documentation_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", DOCUMENTATION, re.DOTALL)
    (tmp_path / "example.yaml").write_text(example)
    done = run("workflow", "validate", tmp_path / "example.yaml", REPOSITORY / "sample_skills")
    assert (done.returncode, done.stdout) == (0, "1 checked: 1 valid, 0 invalid\n")


def test_each_diagnostic_has_a_line_and_an_excerpt(flows: Path, skills: Path) -> None:
    done = run("workflow", "validate", flows / "bad.yaml", flows / "good.yaml", skills)
    assert done.returncode == 1
    target, condition, text, caret, count = done.stdout.splitlines()
    where = f"{flows / 'bad.yaml'}"
    assert target == (
        f"{where}:4: error[unknown_target]: steps[0].target: There is no active skill 'fien'. Did you mean 'fine'?"
    )
    assert condition == (
        f"{where}:7: error[invalid_condition]: steps[1].condition: "
        "the word 'conains' means nothing here; did you mean 'contains'?"
    )
    assert text == "    {{steps.A.output}} conains 'x'"
    assert text[caret.index("^") :] == "conains 'x'"
    assert count == "2 checked: 1 valid, 1 invalid"


def test_json_output_is_the_documented_object(flows: Path, skills: Path) -> None:
    done = run("workflow", "validate", "--json", skills, flows / "bad.yaml", flows / "good.yaml", flows / "none.yaml")
    assert done.returncode == 1
    printed = json.loads(done.stdout)
    Draft202012Validator(RESULTS).validate(printed)
    bad, good, none = printed["results"]
    assert [each["code"] for each in bad["diagnostics"]] == ["unknown_target", "invalid_condition"]
    assert bad["diagnostics"][1]["excerpt"].endswith("\n                   ^")
    assert (good["valid"], good["name"]) == (True, "good")
    assert (none["valid"], none["name"], none["digest"]) == (False, None, None)
    assert [(each["code"], each["message"]) for each in none["diagnostics"]] == [
        ("unreadable", "there is no such file")
    ]


def test_usage_errors_and_invalid_workflows_have_different_exit_codes(flows: Path, skills: Path) -> None:
    only_folders = run("workflow", "validate", skills)
    assert (only_folders.returncode, only_folders.stdout) == (2, "")
    assert "expected at least one workflow file" in only_folders.stderr
    assert run("workflow", "validate", flows / "none.yaml", skills).returncode == 2
    assert run("workflow", "validate").returncode == 2
    (flows / "skill.yaml").write_text("- a")
    assert run("workflow", "validate", flows / "skill.yaml", skills).returncode == 1


def test_control_characters_are_escaped(flows: Path, skills: Path) -> None:
    (flows / "odd.yaml").write_text('"\\e[31m": 1\nsteps: [{kind: skill, name: A, target: "\\e[2J"}]\n')
    done = run("workflow", "validate", flows / "odd.yaml", skills)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    "word",
    [
        *(f"`{code}`" for code in FaultCode),
        *(f'"{operator}"' for operator in Operator),
        *(f"`kind: {kind}`" for kind in StepKind),
        *(f"`{status}`" for status in StepStatus),
        *(f"`{field}`" for field in ("target", "parameters", "message", "condition", "subSteps", "else")),
        *(f"`{field}`" for field in ("default", "required", "description", "inputs", "steps", "name")),
        f"at most {MAX_STEPS}",
        f"{MAX_LEVELS} levels deep",
    ],
)
def test_every_keyword_of_the_format_is_documented(word: str) -> None:
    assert word in DOCUMENTATION


def test_the_problems_caused_by_changes_are_documented() -> None:
    changes = [problem for problem in WorkflowProblem if problem.endswith("_changed")]
    assert [problem for problem in changes if f"`{problem}`" not in DOCUMENTATION] == []
