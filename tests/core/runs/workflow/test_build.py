"""Workflows built in Python are the workflows of their documents.

Templates: filled in one pass, with values that are never parsed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.catalog.catalog import Catalog
from skills_core.runs.workflow.build import Conditional, InputDefinition, RunSkill, StepDefinition, WorkflowDefinition
from skills_core.runs.workflow.conditions import ParseError, Reference, Referent
from skills_core.runs.workflow.document import MAX_LEVELS, read_workflow
from skills_core.runs.workflow.faults import FaultCode, InvalidWorkflowError
from skills_core.runs.workflow.model import MAX_FILLED, SkillStep, TextTooLongError, Workflow, all_steps, parse_template
from skills_core.runs.workflow.plan import plan_from_json, plan_to_json
from skills_core.testing import WorkflowCapture, skill_of

REVIEW = skill_of("---\nname: code-review\ndescription: Reviews code.\n---\nReview with a focus on {{focus}}.\n")
SUMMARIZE = skill_of("---\nname: summarize\ndescription: Summarizes a text.\n---\nSummarize {{text}}.\n")
SKILLS = [REVIEW, SUMMARIZE]

ESCALATE = WorkflowDefinition(
    "review",
    steps=[
        RunSkill("code-review", "Review Security", parameters={"focus": "security"}, message="Review {{change}}."),
        Conditional(
            "Escalate If Critical",
            "{{steps.Review Security.output}} contains 'CRITICAL'",
            then=[RunSkill("summarize", parameters={"text": "{{previous.output}}"})],
        ),
    ],
    inputs={"change": InputDefinition(description="What to review")},
)

DOCUMENT = """
name: review
inputs:
  change: {description: What to review}
steps:
  - kind: skill
    name: Review Security
    target: code-review
    parameters: {focus: security}
    message: Review {{change}}.
  - kind: conditional
    name: Escalate If Critical
    condition: "{{steps.Review Security.output}} contains 'CRITICAL'"
    subSteps:
      - kind: skill
        name: summarize
        target: summarize
        parameters: {text: "{{previous.output}}"}
"""


def values(text: str) -> Workflow:
    """Return the workflow in a text, without the text itself."""
    found = read_workflow(text.encode(), "unnamed")
    assert found.workflow is not None
    assert found.faults == ()
    return replace(found.workflow, text="", digest="")


def test_a_built_workflow_equals_that_of_the_yaml() -> None:
    assert values(ESCALATE.to_yaml()) == values(DOCUMENT)


async def test_it_runs_with_the_same_steps() -> None:
    outcomes = []
    for workflow in (ESCALATE, DOCUMENT):
        capture = WorkflowCapture({"code-review": "CRITICAL: no check", "summarize": "They must look at it."})
        outcome = await capture.run(workflow, SKILLS, {"change": "HEAD"})
        outcomes.append((outcome.output, capture.steps))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == "They must look at it."


def test_a_plan_is_checked_pinned_and_recorded_like_any_other() -> None:
    catalog = Catalog((REVIEW, SUMMARIZE))
    plan = ESCALATE.plan(catalog, {"change": "HEAD"})
    assert set(plan.targets) == {"code-review", "summarize"}
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan


WRONG = {
    FaultCode.UNKNOWN_TARGET: WorkflowDefinition("w", [RunSkill("nobody")]),
    FaultCode.DUPLICATE_STEP: WorkflowDefinition("w", [RunSkill("summarize"), RunSkill("summarize")]),
    FaultCode.LATER_STEP: WorkflowDefinition("w", [RunSkill("summarize", message="{{previous.output}}")]),
    FaultCode.INVALID_CONDITION: WorkflowDefinition("w", [Conditional("c", "a conains b", [RunSkill("summarize")])]),
    FaultCode.INVALID_TEMPLATE: WorkflowDefinition("w", [RunSkill("summarize", message="{{")]),
    FaultCode.UNKNOWN_INPUT: WorkflowDefinition("w", [RunSkill("summarize", message="{{a}}")]),
    FaultCode.MISSING_INPUT: WorkflowDefinition("w", [RunSkill("summarize")], {"a": InputDefinition()}),
    FaultCode.MISSING_FIELD: WorkflowDefinition("w", []),
    FaultCode.INVALID_FIELD: WorkflowDefinition("w", [RunSkill("summarize")], {"1": InputDefinition("d")}),
    FaultCode.LIMIT: WorkflowDefinition("w", [RunSkill("summarize", str(number)) for number in range(300)]),
    FaultCode.INVALID_YAML: WorkflowDefinition("w", [RunSkill("summarize", message="\ud800")]),
}


@pytest.mark.parametrize("code", WRONG)
def test_the_faults_of_a_built_workflow_are_those_of_a_document(code: FaultCode) -> None:
    with pytest.raises(InvalidWorkflowError) as caught:
        WRONG[code].plan(Catalog(tuple(SKILLS)))
    assert code in [fault.code for fault in caught.value.faults]


def test_steps_nested_without_end_are_refused() -> None:
    steps: list[StepDefinition] = []
    steps.append(Conditional("c", "true", then=steps, otherwise=steps))
    with pytest.raises(InvalidWorkflowError) as caught:
        WorkflowDefinition("w", [Conditional("outer", "true", then=steps)]).plan(Catalog(()))
    assert FaultCode.LIMIT in [fault.code for fault in caught.value.faults]


TRAPS = (
    *("0o14", "0x1f", "1e3", "1.0", ".nan", ".inf", "2020-01-01", "yes", "no", "true", "null", "~"),
    *("=", "<<", "#", "-", "?", "'", '"', " a ", "- a", "a: b", "\x85", "\ufeff", "\u2028"),
)
PIECES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(TRAPS),
).map(lambda text: text.replace("{", "("))
NAMES = PIECES.map(lambda text: "".join(filter(str.isprintable, text)).replace("}", ")").strip() or "n")
SKILL = st.builds(
    RunSkill,
    NAMES,
    NAMES,
    st.dictionaries(PIECES, PIECES, max_size=3),
    st.none() | PIECES,
)
STEP = st.recursive(
    SKILL,
    lambda steps: st.builds(
        Conditional,
        NAMES,
        st.just("{{previous.output}} == 'a\\n'"),
        st.lists(steps, min_size=1, max_size=2),
        st.lists(steps, max_size=2),
    ),
    max_leaves=5,
)
INPUT = st.builds(InputDefinition, st.none(), st.none() | st.booleans(), PIECES) | st.builds(
    InputDefinition, PIECES, st.sampled_from([None, False]), PIECES
)
DEFINITION = st.builds(
    WorkflowDefinition,
    NAMES,
    st.lists(STEP, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["a", "b-c", "true", "null", "e"]), INPUT, max_size=3),
    st.none() | PIECES,
    PIECES,
    st.lists(PIECES, max_size=2),
)


def mapping_of(step: StepDefinition) -> dict[str, Any]:
    if isinstance(step, RunSkill):
        more = {} if step.message is None else {"message": step.message}
        fields = {"name": step.name, "target": step.target, "parameters": dict(step.parameters)}
        return {"kind": "skill", **fields, **more}
    branches = {"subSteps": [mapping_of(each) for each in step.then]}
    if step.otherwise:
        branches["else"] = [mapping_of(each) for each in step.otherwise]
    return {"kind": "conditional", "name": step.name, "condition": step.condition, **branches}


def document_of(workflow: WorkflowDefinition) -> str:
    """Return the same workflow as flow-style YAML with all texts quoted."""
    inputs = {}
    for name, each in workflow.inputs.items():
        fields = {"default": each.default, "required": each.required, "description": each.description}
        inputs[name] = {key: value for key, value in fields.items() if value is not None}
    document: dict[str, Any] = {"name": workflow.name, "description": workflow.description, "inputs": inputs}
    document |= {"tags": list(workflow.tags), "steps": [mapping_of(step) for step in workflow.steps]}
    if workflow.version is not None:
        document["version"] = workflow.version
    return json.dumps(document)


def with_unique_names(workflow: WorkflowDefinition) -> WorkflowDefinition:
    count = 0

    def renamed(step: StepDefinition) -> StepDefinition:
        nonlocal count
        count += 1
        name = f"{count} {step.name}"
        if isinstance(step, RunSkill):
            return replace(step, name=name)
        then, otherwise = [renamed(each) for each in step.then], [renamed(each) for each in step.otherwise]
        return replace(step, name=name, then=then, otherwise=otherwise)

    return replace(workflow, steps=[renamed(step) for step in workflow.steps])


@given(drawn=DEFINITION)
def test_building_and_parsing_the_same_workflow_give_equal_values(drawn: WorkflowDefinition) -> None:
    definition = with_unique_names(drawn)
    built = values(definition.to_yaml())
    assert built == values(document_of(definition))
    given_texts = [step.parameters for step in _skill_steps(definition.steps)]
    steps = [step for step in all_steps(built.steps) if isinstance(step, SkillStep)]
    assert [{key: each.text for key, each in step.parameters.items()} for step in steps] == given_texts


def _skill_steps(steps: Any) -> list[RunSkill]:
    found: list[RunSkill] = []
    for step in steps:
        found += [step] if isinstance(step, RunSkill) else _skill_steps([*step.then, *step.otherwise])
    return found


def test_as_many_levels_as_a_document_may_have_can_be_built() -> None:
    steps: list[StepDefinition] = [RunSkill("a")]
    for level in range(MAX_LEVELS):
        steps = [Conditional(str(level), "true", then=steps)]
    assert len([*all_steps(values(WorkflowDefinition("w", steps).to_yaml()).steps)]) == MAX_LEVELS + 1


def filled(text: str, value: str | None = "VALUE") -> str:
    return parse_template(text).filled(lambda _: value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("no reference, } and { and }}", "no reference, } and { and }}"),
        ("{{a}}", "VALUE"),
        ("text {{steps.A B.output}} text", "text VALUE text"),
        ("{{a}}{{ inputs.b }}\n{{previous.output}}", "VALUEVALUE\nVALUE"),
        ("${{a}}}", "$VALUE}"),
        ("{{'{{'}}a}}", "{{a}}"),
        ('{{"{{"}}', "{{"),
        ("C:\\{{a}}\\", "C:\\VALUE\\"),
    ],
)
def test_references_are_filled_and_all_else_stays(text: str, expected: str) -> None:
    assert filled(text) == expected


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("a {{b", 2, "no '}}' closes this reference"),
        ("a {{}}", 2, "this reference is empty"),
        ("{{a}} {{steps.A.exitCode}}", 16, "a skill has no exit code"),
        ("{{steps.A B}}", 8, "a reference to a step ends in '.output'"),
        ("{{ env.TOKEN }}", 3, "make it an input"),
        ("{{{a}}}", 2, "this is not a reference"),
        ("{{github.event}}", 2, "this is not a reference"),
    ],
)
def test_an_invalid_reference_is_an_error_with_its_position(text: str, position: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_template(text)
    assert message in caught.value.message
    assert caught.value.position == position


def test_a_missing_value_is_empty() -> None:
    assert filled("<{{a}}>", None) == "<>"


def test_a_text_that_would_be_too_long_is_refused() -> None:
    assert len(filled("{{a}}" * 10, "x" * (MAX_FILLED // 10))) == MAX_FILLED
    with pytest.raises(TextTooLongError):
        filled("{{a}}" * 10 + ".", "x" * (MAX_FILLED // 10))


@given(st.text(), st.text(), st.text().filter(lambda text: "{{" not in text and not text.endswith("{")))
def test_a_value_is_inserted_literally_and_never_parsed_for_references(one: str, two: str, between: str) -> None:
    template = parse_template(f"{{{{a}}}}{between}{{{{b}}}}{{{{a}}}}")
    values = {"a": one + "{{b}}", "b": two + "{{'{{'}}"}
    assert (
        template.filled(lambda reference: values[reference.name]) == values["a"] + between + values["b"] + values["a"]
    )


@given(st.text("{}'\"ab. steps") | st.text())
def test_any_text_is_parsed_or_refused_at_a_position_in_it(text: str) -> None:
    try:
        template = parse_template(text)
    except ParseError as error:
        position = error.position
    else:
        position = 0
        assert all(text[each.position :].startswith("{{") for each in template.references)
    assert 0 <= position <= len(text)


def test_a_reference_survives_a_round_trip() -> None:
    for reference in (
        Reference(Referent.STEP, "Review v1.2", 0),
        Reference(Referent.INPUT, "topic", 0),
        Reference(Referent.PREVIOUS, "", 0),
    ):
        assert parse_template(str(reference)).parts == (reference,)
