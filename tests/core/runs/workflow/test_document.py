"""Workflow files: their values, and every fault with its field and line."""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skills_core
from skills_core.runs.workflow.document import MAX_STEPS, read_workflow
from skills_core.runs.workflow.faults import MAX_FAULTS, FaultCode, WorkflowFault, is_valid
from skills_core.runs.workflow.model import ConditionalStep, SkillStep, Workflow, WorkflowInput, all_steps

# The example of the section "Invoking skills from workflows", as it stands there.
SEED = """\
steps:
- kind: skill
  name: Review Security
  target: code-review
  parameters:
    focus: security
    format: markdown
- kind: conditional
  name: Escalate If Critical
  condition: "{{steps.Review Security.output}} contains 'CRITICAL'"
  subSteps:
  - kind: skill
    name: Escalation Report
    target: summarize
    parameters:
      filePath: "{{steps.Review Security.output}}"
      format: executive-summary
"""

STEP = "steps:\n- {kind: skill, name: A, target: a}\n"


def read(text: str | bytes) -> Workflow:
    found = read_workflow(text if isinstance(text, bytes) else text.encode(), "unnamed")
    assert found.faults == ()
    assert found.workflow is not None
    return found.workflow


def faults(text: str | bytes) -> tuple[WorkflowFault, ...]:
    return read_workflow(text if isinstance(text, bytes) else text.encode(), "unnamed").faults


def test_the_example_of_jdai_is_read() -> None:
    workflow = read(SEED)
    assert workflow.name == "unnamed"
    review, escalate = workflow.steps
    assert isinstance(review, SkillStep)
    assert (review.name, review.target) == ("Review Security", "code-review")
    assert {name: text.text for name, text in review.parameters.items()} == {"focus": "security", "format": "markdown"}
    assert isinstance(escalate, ConditionalStep)
    assert [reference.name for reference in escalate.condition.references] == ["Review Security"]
    (report,) = escalate.then
    assert isinstance(report, SkillStep)
    assert [str(each) for each in report.parameters["filePath"].references] == ["{{steps.Review Security.output}}"]
    assert escalate.otherwise == ()


def test_all_fields_are_read() -> None:
    text = """\
name: Release
version: 1.5
description: Writes notes.
tags: [notes, "release"]
inputs:
  version: {description: Which one.}
  tone:
    default: plain
  draft: {default: false}
  audience: {required: false}
  topic:
steps:
- kind: skill
  name: Write
  target: release-notes
  parameters: {version: "{{version}}", count: 3, short: true, ratio: 0.5}
  message: |
    Write in a {{inputs.tone}} tone.
- kind: conditional
  name: Draft
  condition: true
  subSteps: [{kind: skill, name: A, target: a}]
  else: [{kind: skill, name: B, target: b}]
"""
    workflow = read(text)
    assert (workflow.name, workflow.version, workflow.description) == ("Release", "1.5", "Writes notes.")
    assert workflow.tags == ("notes", "release")
    assert workflow.inputs == {
        "version": WorkflowInput("version", None, required=True, description="Which one."),
        "tone": WorkflowInput("tone", "plain", required=False),
        "draft": WorkflowInput("draft", "false", required=False),
        "audience": WorkflowInput("audience", None, required=False),
        "topic": WorkflowInput("topic", None, required=True),
    }
    write, draft = workflow.steps
    assert isinstance(write, SkillStep)
    assert isinstance(draft, ConditionalStep)
    assert {name: text.text for name, text in write.parameters.items()} == {
        "version": "{{version}}",
        "count": "3",
        "short": "true",
        "ratio": "0.5",
    }
    assert write.message is not None
    assert write.message.text == "Write in a {{inputs.tone}} tone.\n"
    assert draft.condition.text == "true"
    assert [step.name for step in workflow.skill_steps] == ["Write", "A", "B"]
    assert [step.name for step in all_steps(workflow.steps)] == ["Write", "Draft", "A", "B"]
    assert (write.at.field, write.at.line, draft.at.within("subSteps").within(0).line) == ("steps[0]", 13, 22)


@pytest.mark.parametrize("raw", [STEP.encode(), b"\xef\xbb\xbf" + STEP.replace("\n", "\r\n").encode()])
def test_the_digest_is_of_the_bytes_and_byte_order_marks_and_line_ends_do_not_matter(raw: bytes) -> None:
    workflow = read(raw)
    assert workflow.digest == "sha256:" + hashlib.sha256(raw).hexdigest()
    assert workflow.text.encode() == raw


@pytest.mark.parametrize(
    ("text", "code", "line", "message"),
    [
        (b"name: \xff", "not_utf8", 1, "byte 0xff is not UTF-8"),
        ("a\nb: c", "invalid_yaml", 1, ""),
        ("- a", "invalid_yaml", 1, "a list instead of fields"),
        ("a: 1\n---\nb: 2", "invalid_yaml", 2, "a second document begins"),
        ("a: !!set {}", "invalid_yaml", 1, "not supported"),
        ("", "invalid_yaml", None, "there are no fields"),
        ("x: " + "a" * 262_144, "invalid_yaml", None, "longer than"),
        ("{" * 100, "invalid_yaml", 1, ""),
    ],
)
def test_a_document_that_is_not_a_mapping_is_one_fault(
    text: str | bytes, code: str, line: int | None, message: str
) -> None:
    (fault,) = faults(text)
    assert (fault.code, fault.line) == (code, line)
    assert message in fault.message


def with_step(fields: str) -> str:
    return f"steps:\n- {{kind: skill, name: A, target: a}}\n- {fields}\n"


@pytest.mark.parametrize(
    ("text", "code", "field", "line", "message"),
    [
        ("name: x", "missing_field", "", 1, "'steps' is missing: list at least one step"),
        ("name: ''\n" + STEP, "missing_field", "name", 1, "'name' is empty"),
        ("name: [a]\n" + STEP, "invalid_field", "name", 1, "expected a text, not a list"),
        ('name: "a\\nb"\n' + STEP, "invalid_field", "name", 1, "a name is one line"),
        ("name: " + "a" * 201 + "\n" + STEP, "limit", "name", 1, "the name has 201 characters; at most 200"),
        ("tags: a\n" + STEP, "invalid_field", "tags", 1, "expected a list of texts, not a text"),
        ("Steps: []\n" + STEP, "unknown_field", "Steps", 1, "did you mean 'steps'?"),
        ("runs-on: x\n" + STEP, "unknown_field", "runs-on", 1, "known are name, version, description, tags, inputs"),
        ("steps: a", "invalid_field", "steps", 1, "expected a list of steps, not a text"),
        ("steps: []", "missing_field", "steps", 1, "'steps' has no step"),
        ("steps:\n- a", "invalid_field", "steps[0]", 2, "expected a step, as in '- kind: skill'"),
        ("steps:", "invalid_field", "steps", 1, "expected a list of steps, not nothing"),
        ("name: a\nname: b\n" + STEP, "duplicate_key", "", 2, "the key 'name' is repeated"),
        (STEP + "description: !!binary aGk=", "invalid_yaml", "", 3, "binary data stays base64 text"),
        ("inputs: [a]\n" + STEP, "invalid_field", "inputs", 1, "expected a mapping, not a list"),
        ("inputs:\n  a b: {}\n" + STEP, "invalid_field", "inputs.a b", 2, "'a b' is not a name of an input"),
        ("inputs:\n  a: {dflt: 1}\n" + STEP, "unknown_field", "inputs.a.dflt", 2, "did you mean 'default'?"),
        (
            "inputs:\n  a: {required: 1}\n" + STEP,
            "invalid_field",
            "inputs.a.required",
            2,
            "true or false, not a number",
        ),
        (
            "inputs:\n  a: {required: true, default: 1}\n" + STEP,
            "invalid_field",
            "inputs.a.required",
            2,
            "an input with a default cannot be required",
        ),
        (
            with_step("{name: B, target: b}"),
            "missing_field",
            "steps[1]",
            3,
            "'kind' is missing: expected skill or cond",
        ),
        (with_step("{kind: Skill, name: B}"), "unknown_kind", "steps[1].kind", 3, "did you mean 'skill'?"),
        (with_step("{kind: conditonal, name: B}"), "unknown_kind", "steps[1].kind", 3, "did you mean 'conditional'?"),
        (
            with_step("{kind: loop, name: B}"),
            "unknown_kind",
            "steps[1].kind",
            3,
            "of kind 'loop' are not supported",
        ),
        (with_step("{kind: skill, target: b}"), "missing_field", "steps[1]", 3, "'name' is missing"),
        (with_step("{kind: skill, name: 'B}}', target: b}"), "invalid_field", "steps[1].name", 3, "without '{{'"),
        (with_step("{kind: skill, name: A, target: b}"), "duplicate_step", "steps[1].name", 3, "already, in line 2"),
        (with_step("{kind: skill, name: B}"), "missing_field", "steps[1]", 3, "'target' is missing"),
        (
            with_step("{kind: skill, name: B, target: b, condition: x}"),
            "unknown_field",
            "steps[1].condition",
            3,
            "a step of kind 'skill' has no field 'condition'; known are kind, name, target, parameters, message",
        ),
        (
            with_step("{kind: skill, name: B, target: b,\n   parameters: {x: }}"),
            "invalid_field",
            "steps[1].parameters.x",
            4,
            "expected a text, not nothing",
        ),
        (
            with_step("{kind: skill, name: B, target: b, message: '{{a'}"),
            "invalid_template",
            "steps[1].message",
            3,
            "no '}}' closes this reference",
        ),
        (
            with_step("{kind: skill, name: B, target: b, message: '" + "a" * 20_001 + "'}"),
            "limit",
            "steps[1].message",
            3,
            "at most 20,000",
        ),
        (
            with_step("kind: conditional\n  name: C\n  condition: ''\n  subSteps: [{kind: skill, name: B, target: b}]"),
            "missing_field",
            "steps[1].condition",
            5,
            "'condition' is empty",
        ),
        (
            with_step(
                "{kind: conditional, name: C, condition: '1 = 1', subSteps: [{kind: skill, name: B, target: b}]}"
            ),
            "invalid_condition",
            "steps[1].condition",
            3,
            "did you mean '=='?",
        ),
        (with_step("{kind: conditional, name: C, condition: 'true'}"), "missing_field", "steps[1]", 3, "'subSteps' is"),
        (
            with_step("kind: conditional\n  name: C\n  condition: 'true'\n  subSteps:\n  - kind: skill\n    name: B"),
            "missing_field",
            "steps[1].subSteps[0]",
            7,
            "'target' is missing",
        ),
        (
            with_step(
                "{kind: conditional, name: C, condition: true, subSteps: [{kind: skill, name: B, target: b}], else: []}"
            ),
            "missing_field",
            "steps[1].else",
            3,
            "'else' has no step",
        ),
        ("inputs: {" + ", ".join(f"a{n}: " for n in range(101)) + "}\n" + STEP, "limit", "inputs", 1, "at most 100"),
        (
            with_step(
                "{kind: skill, name: B, target: b, parameters: {" + ", ".join(f"a{n}: x" for n in range(51)) + "}}"
            ),
            "limit",
            "steps[1].parameters",
            3,
            "at most 50",
        ),
    ],
)
def test_a_fault_has_its_field_its_line_and_what_was_expected(
    text: str, code: str, field: str, line: int | None, message: str
) -> None:
    (fault,) = faults(text)
    assert (fault.code, fault.field, fault.line) == (code, field, line)
    assert message in fault.message


def test_all_faults_are_reported_in_the_order_of_lines() -> None:
    text = """\
nmae: x
steps:
- kind: skill
  name: A
  target: ''
- kind: tool
  name: A
- kind: conditional
  name: C
  condition: "{{steps.A.output}} conains 'x'"
  subSteps:
  - kind: skill
    nam: D
"""
    assert [(fault.line, fault.code.value) for fault in faults(text)] == [
        (1, "unknown_field"),
        (5, "missing_field"),
        (6, "unknown_kind"),
        (7, "duplicate_step"),
        (10, "invalid_condition"),
        (12, "missing_field"),
        (12, "missing_field"),
        (13, "unknown_field"),
    ]
    condition = faults(text)[4]
    assert condition.excerpt == "{{steps.A.output}} conains 'x'\n                   ^"
    assert str(condition) == "steps[2].condition: the word 'conains' means nothing here; did you mean 'contains'?"


def test_a_field_repeated_by_an_alias_has_the_line_of_its_parent() -> None:
    text = "x-shared: &x {kind: skill, name: A}\nsteps:\n- *x\n"
    found = [(fault.field, fault.line) for fault in faults(text)]
    assert found == [("x-shared", 1), ("steps[0]", 3)]


def test_the_number_of_steps_is_limited() -> None:
    def steps(count: int) -> str:
        return "steps:\n" + "".join(f"- {{kind: skill, name: S{n}, target: a}}\n" for n in range(count))

    assert len(read(steps(MAX_STEPS)).steps) == MAX_STEPS
    (fault,) = faults(steps(MAX_STEPS + 1))
    assert (fault.code, fault.message) == (FaultCode.LIMIT, "there are more than 200 steps")


def nested(levels: int) -> str:
    inner = "{kind: skill, name: S, target: a}"
    for level in range(levels):
        inner = f"{{kind: conditional, name: C{level}, condition: 'true', subSteps: [{inner}]}}"
    return f"steps: [{inner}]"


def test_the_depth_is_limited() -> None:
    read(nested(8))
    (fault,) = faults(nested(9))
    assert fault.code is FaultCode.LIMIT
    assert fault.field == "steps[0]" + ".subSteps[0]" * 8 + ".subSteps"


def test_faults_beyond_a_bound_are_counted_as_one() -> None:
    found = faults("".join(f"field{n}: 1\n" for n in range(5_000)) + STEP)
    assert len(found) == MAX_FAULTS + 1
    limits = [fault.message for fault in found if fault.code is FaultCode.LIMIT]
    assert limits == ["there are more faults; only the first are reported"]


def test_the_number_of_references_in_all_texts_together_is_limited() -> None:
    shared = "tags: [&x '" + "{{a}}" * 1_000 + "']\nsteps:\n"
    few = shared + "".join(f"- {{kind: skill, name: S{n}, target: a, message: *x}}\n" for n in range(5))
    assert len(read(few).steps) == 5
    (fault,) = faults(few + "- {kind: skill, name: B, target: a, parameters: {x: *x, y: *x}}\n")
    assert (fault.code, fault.field) == (FaultCode.LIMIT, "steps[5].parameters.x")
    assert fault.message == "there are more than 5,000 references in all texts together"


def test_steps_that_aliases_multiply_are_bounded() -> None:
    text = "a: &a [{kind: x}, {kind: x}]\n" + "steps: [" + ", ".join(["*a"] * 5_000) + "]\n"
    assert not is_valid(faults(text))


ITEMS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["skill", "conditional", "{{a}}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "name", "target", "parameters", "message", "condition", "subSteps", "else", "steps", "inputs"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["name", "inputs", "steps", "tags", "x"]), ITEMS, min_size=1))
def test_no_content_raises_and_faults_have_locations(content: Any) -> None:
    text = json.dumps(content)
    for fault in faults(text):
        assert fault.line is None or 1 <= fault.line <= text.count("\n") + 1
        assert str(fault)


@given(st.binary(max_size=60))
def test_no_bytes_raise(raw: bytes) -> None:
    read_workflow(raw, "unnamed")


def test_every_fault_code_occurs() -> None:
    given = {
        node.attr
        for path in Path(skills_core.__file__).parent.joinpath("runs", "workflow").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "FaultCode"
    }
    # A file that cannot be read at all is a matter of whoever reads it.
    assert {code.name for code in FaultCode} - given == {"UNREADABLE"}
