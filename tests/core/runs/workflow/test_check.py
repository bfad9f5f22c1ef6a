"""Checks of a workflow before its first step: targets, references and inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skills_core import Catalog, Environment, Library, Severity
from skills_core.errors import InvalidRecordError
from skills_core.runs.workflow.faults import InvalidWorkflowError, WorkflowFault, is_valid
from skills_core.runs.workflow.plan import Plan, plan_from_json, plan_to_json, prepare, validate_workflow


@pytest.fixture
def catalog(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Catalog:
    write_skill(tmp_path, "review", body="Focus on {{focus}} as {{format}}.")
    write_skill(tmp_path, "summarize", body="Read {{filePath}}.")
    write_skill(tmp_path, "gated", fields="when: {os: windows}")
    write_skill(tmp_path, "broken", description="''")
    catalog: Catalog = load(tmp_path, environment=Environment(os="linux", has_bin=lambda _: True)).catalog
    return catalog


def found(text: str, catalog: Catalog) -> tuple[WorkflowFault, ...]:
    return validate_workflow(text.encode(), "unnamed", catalog).faults


def told(text: str, catalog: Catalog) -> list[tuple[str, str, int | None]]:
    return [(fault.code.value, fault.field, fault.line) for fault in found(text, catalog)]


def skill(name: str, refers: str = "", *, target: str = "review") -> str:
    return f"- kind: skill\n  name: {name}\n  target: {target}\n  message: 'On {refers}'\n"


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def conditional(name: str, condition: str, then: str, otherwise: str = "") -> str:
    branches = f"  subSteps:\n{indented(then)}" + (f"  else:\n{indented(otherwise)}" if otherwise else "")
    return f'- kind: conditional\n  name: {name}\n  condition: "{condition}"\n{branches}'


def steps(*each: str) -> str:
    return "steps:\n" + "".join(each)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("revew", "There is no active skill 'revew'. Did you mean 'review'?"),
        ("Review", "There is no active skill 'Review'."),
        ("gated", "There is no active skill 'gated': it is excluded (os_mismatch: "),
        ("broken", "There is no active skill 'broken': it is invalid (missing_description: "),
    ],
)
def test_an_inactive_target_is_a_fault_with_its_reason(target: str, message: str, catalog: Catalog) -> None:
    (fault,) = found(steps(skill("A", target=target)), catalog)
    assert (fault.code, fault.field, fault.line) == ("unknown_target", "steps[0].target", 4)
    assert message in fault.message


def test_a_parameter_that_the_body_does_not_have_is_a_warning(catalog: Catalog) -> None:
    text = steps("- kind: skill\n  name: A\n  target: review\n  parameters: {focus: a, fromat: b, arguments: c}\n")
    (fault,) = found(text, catalog)
    assert (fault.severity, fault.code, fault.field) == (
        Severity.WARNING,
        "unknown_parameter",
        "steps[0].parameters.fromat",
    )
    assert "known are focus, format" in fault.message
    assert is_valid([fault])


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (steps(skill("A"), skill("B", "{{steps.a.output}}")), "unknown_step", "there is no step 'a'"),
        (steps(skill("Analyse"), skill("B", "{{steps.Analyze.output}}")), "unknown_step", "did you mean 'Analyse'?"),
        (steps(skill("A", "{{steps.B.output}}"), skill("B")), "later_step", "'B' comes later"),
        (steps(skill("A", "{{steps.A.output}}")), "circular", "circular reference: 'A' → 'A'"),
        (
            steps(skill("A", "{{steps.B.output}}"), skill("B", "{{steps.A.output}}")),
            "circular",
            "circular reference: 'A' → 'B' → 'A'",
        ),
        (
            steps(skill("A", "{{steps.C.output}}"), skill("B", "{{steps.A.output}}"), skill("C", "{{steps.B.output}}")),
            "circular",
            "circular reference: 'A' → 'C' → 'B' → 'A'",
        ),
        (
            steps(conditional("C", "{{steps.A.output}} == 1", skill("A"))),
            "circular",
            "circular reference: 'C' → 'A' → 'C'",
        ),
        (
            steps(conditional("C", "true", skill("A", "{{steps.C.output}}"))),
            "circular",
            "circular reference: 'A' → 'C' → 'A'",
        ),
        (
            steps(conditional("C", "true", skill("A"), skill("B", "{{steps.A.output}}"))),
            "other_branch",
            "'A' is in the other branch",
        ),
        (
            steps(conditional("C", "true", skill("A", "{{steps.B.output}}"), skill("B"))),
            "other_branch",
            "'B' is in the other branch",
        ),
        (steps(skill("A", "{{previous.output}}")), "later_step", "no skill is performed before 'A'"),
        (steps(conditional("C", "{{previous.output}} == 1", skill("A"))), "later_step", "performed before 'C'"),
        (
            steps(conditional("C", "true", skill("A"), skill("B", "{{previous.output}}"))),
            "later_step",
            "no skill is performed before 'B'",
        ),
        (steps(skill("A", "{{topic}}")), "unknown_input", "there is no input 'topic'; declare it under 'inputs'"),
        ("inputs: {topic: }\n" + steps(skill("A", "{{inputs.tpoic}}")), "unknown_input", "did you mean 'topic'?"),
    ],
)
def test_a_reference_that_can_never_have_a_value_is_an_error(
    text: str, code: str, message: str, catalog: Catalog
) -> None:
    (fault,) = found(text, catalog)
    assert (fault.severity, fault.code) == (Severity.ERROR, code)
    assert message in fault.message
    shown, caret = fault.excerpt.split("\n")
    assert shown[caret.index("^") :].startswith("{{")


MAYBE = conditional("C", "true", skill("A"))
BOTH = conditional("C", "true", skill("A"), skill("B"))


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        (steps(skill("A"), skill("B", "{{steps.A.output}} {{previous.output}}")), []),
        (steps(skill("A"), conditional("C", "{{steps.A.output}} == 1", skill("B", "{{steps.A.output}}"))), []),
        (steps(conditional("C", "true", skill("A") + skill("B", "{{steps.A.output}}{{previous.output}}"))), []),
        # What only may have been done is missing where it was not.
        (steps(MAYBE, skill("D", "{{steps.A.output}}")), ["{{steps.A.output}}"]),
        (steps(MAYBE, skill("D", "{{steps.C.output}}")), ["{{steps.C.output}}"]),
        (steps(MAYBE, skill("D", "{{previous.output}}")), ["{{previous.output}}"]),
        (steps(MAYBE, conditional("E", "{{steps.A.output}} == null", skill("D"))), []),
        # One of two branches is always taken.
        (steps(BOTH, skill("D", "{{steps.C.output}} {{previous.output}}")), []),
        (steps(BOTH, skill("D", "{{steps.A.output}}")), ["{{steps.A.output}}"]),
        (
            steps(conditional("O", "true", BOTH, skill("X")), skill("D", "{{steps.O.output}} {{steps.C.output}}")),
            ["{{steps.C.output}}"],
        ),
        (
            steps(conditional("O", "true", MAYBE, skill("X")), skill("D", "{{steps.O.output}}")),
            ["{{steps.O.output}}"],
        ),
    ],
)
def test_a_text_that_may_be_empty_has_a_warning(text: str, warned: list[str], catalog: Catalog) -> None:
    faults = found(text, catalog)
    assert [fault.message for fault in faults] == [f"{each} is empty if its step did not run" for each in warned]
    assert is_valid(faults)


def test_all_faults_are_reported_at_once_including_those_of_the_document(catalog: Catalog) -> None:
    text = "nmae: x\n" + steps(
        skill("A", "{{steps.B.output}}", target="nowhere"),
        conditional("C", "{{steps.Z.output}} = 1", skill("B", "{{steps.Z.output}} {{steps.T.output}}")),
        "- {kind: tool, name: T}\n",
    )
    assert told(text, catalog) == [
        ("unknown_field", "nmae", 1),
        ("unknown_target", "steps[0].target", 5),
        ("later_step", "steps[0].message", 6),
        ("invalid_condition", "steps[1].condition", 9),
        ("unknown_step", "steps[1].subSteps[0].message", 14),
        ("later_step", "steps[1].subSteps[0].message", 14),
        ("unknown_kind", "steps[2].kind", 15),
    ]


INPUTS = "inputs: {topic: {description: On what}, tone: {default: plain}, more: {required: false}}\n"
WORKFLOW = INPUTS + steps(skill("A", "{{topic}} {{tone}} {{more}}"), skill("B", target="summarize"))


def test_a_plan_holds_inputs_and_defaults_and_the_digest_of_each_target(catalog: Catalog) -> None:
    plan = prepare(WORKFLOW.encode(), "flow", catalog, {"topic": "tea"})
    assert plan.workflow.name == "flow"
    assert plan.inputs == {"topic": "tea", "tone": "plain"}
    assert plan.targets == {name: catalog.skill(name).digest for name in ("review", "summarize")}
    assert prepare(WORKFLOW.encode(), "flow", catalog, {"topic": "", "tone": ""}).inputs == {"topic": "", "tone": ""}


def test_a_plan_is_refused_with_all_faults(catalog: Catalog) -> None:
    text = WORKFLOW.replace("summarize", "nowhere")
    with pytest.raises(InvalidWorkflowError, match=r"'flow' cannot be run: .*'nowhere'.*'tpoic'.*'topic'") as caught:
        prepare(text.encode(), "flow", catalog, {"tpoic": "tea", "tone": "x" * 200_001})
    assert [(fault.code, fault.message) for fault in caught.value.faults[1:]] == [
        ("unknown_input", "the workflow has no input 'tpoic'; did you mean 'topic'?"),
        ("invalid_input", "the input 'tone' has 200,001 characters; at most 200,000"),
        ("missing_input", "the input 'topic' needs a value (On what)"),
    ]
    with pytest.raises(InvalidWorkflowError, match="'flow' cannot be run: a list instead of fields"):
        prepare(b"- a", "flow", catalog, {})


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
def test_a_plan_survives_a_json_round_trip(prefix: bytes, catalog: Catalog) -> None:
    plan = prepare(prefix + WORKFLOW.encode(), "flow", catalog, {"topic": "tea"})
    again: Plan = plan_from_json(plan_to_json(plan))
    assert again == plan


def test_a_record_with_another_document_is_refused(catalog: Catalog) -> None:
    record = plan_to_json(prepare(WORKFLOW.encode(), "flow", catalog, {"topic": "tea"}))
    with pytest.raises(InvalidRecordError, match="it does not match the recorded digest"):
        plan_from_json({**record, "document": WORKFLOW + "# more\n"})
    with pytest.raises(InvalidRecordError, match="missing or unknown: targets"):
        plan_from_json({name: value for name, value in record.items() if name != "targets"})
