"""Running workflows: branches, values passed between steps, and restarts that repeat no step."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Catalog, Library
from skills_core.format.yaml12 import JsonValue
from skills_core.interaction import Progress
from skills_core.runs.journal import Journal, MemoryJournal, from_json, to_json
from skills_core.runs.outcome import RunOutcome, RunProblem, RunStatus
from skills_core.runs.workflow.model import StepStatus, WorkflowOutcome, WorkflowProblem
from skills_core.runs.workflow.plan import Plan, plan_from_json, plan_to_json, prepare
from skills_core.runs.workflow.run import run_workflow
from tests.core.runs.workflow.test_document import SEED


@dataclass
class Stage:
    """Performs skills: what each step says is in `says`, and what was performed is noted in `effects`."""

    digests: Mapping[str, str]
    says: dict[str, str | RunOutcome] = field(default_factory=dict)
    effects: list[tuple[str, str, dict[str, str], str | None]] = field(default_factory=list)

    async def perform(self, target: str, parameters: Mapping[str, str], message: str | None, step: str) -> RunOutcome:
        self.effects.append((step, target, dict(parameters), message))
        said = self.says.get(step, f"output of {step}")
        if isinstance(said, RunOutcome):
            return said
        outcome = RunOutcome(run_id="inner", skill=target, digest=self.digests[target], status=RunStatus.COMPLETED)
        return replace(outcome, output=said)

    @property
    def steps(self) -> list[str]:
        return [step for step, *_ in self.effects]


class JournalOnDisk(MemoryJournal):
    """A journal that outlives the process: a file with a line for each step that was finished.

    `dies_at` numbers the moments between steps, from 0, at which the process ends: before a step's work is done, and
    after it was done and recorded.
    """

    def __init__(self, path: Path, dies_at: int | None = None) -> None:
        super().__init__("run-1")
        self._path = path
        self._taken = 0
        self._moments = dies_at

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        self._taken += 1
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        if self._taken <= len(lines):
            recorded = json.loads(lines[self._taken - 1])
            assert recorded["name"] == name
            result: JsonValue = recorded["result"]
            return result
        self._live()
        value = await work()
        with self._path.open("a") as file:
            file.write(json.dumps({"name": name, "result": value}) + "\n")
        self._live()
        return json.loads(json.dumps(value))  # type: ignore[no-any-return]

    def _live(self) -> None:
        if self._moments is not None:
            self._moments -= 1
            if self._moments < 0:
                raise ProcessDiedError


class ProcessDiedError(BaseException):
    pass


@pytest.fixture(scope="module")
def catalog(
    tmp_path_factory: pytest.TempPathFactory, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> Catalog:
    root = tmp_path_factory.mktemp("skills")
    for name in ("code-review", "summarize", "work"):
        write_skill(root, name, body="{{focus}} {{format}} {{filePath}} {{p}}")
    catalog: Catalog = load(root).catalog
    return catalog


Prepared = tuple[Plan, Stage]


@pytest.fixture(scope="module")
def prepared(catalog: Catalog) -> Callable[..., Prepared]:
    """Make a plan of a text, and a stage that performs its skills."""

    def make(text: str, inputs: Mapping[str, str] | None = None, **says: str | RunOutcome) -> Prepared:
        plan = prepare(text.encode(), "flow", catalog, inputs or {})
        return plan, Stage(plan.targets, {name.replace("_", " "): said for name, said in says.items()})

    return make


async def run(plan: Plan, stage: Stage, journal: Journal | None = None) -> WorkflowOutcome:
    journal = journal or MemoryJournal("run-1")
    return await run_workflow(plan, stage.perform, journal, digest_of=stage.digests.get)


def statuses(outcome: WorkflowOutcome) -> dict[str, StepStatus]:
    return {record.name: record.status for record in outcome.steps}


DONE, SKIPPED, FAILED, NOT_REACHED = StepStatus


async def test_the_example_of_jdai_escalates_critical_findings(prepared: Callable[..., Prepared]) -> None:
    report = "1 CRITICAL finding: {{steps.Escalation Report.output}} ' or true"
    plan, stage = prepared(SEED, Review_Security=report)
    outcome = await run(plan, stage)
    assert stage.effects == [
        ("Review Security", "code-review", {"focus": "security", "format": "markdown"}, None),
        ("Escalation Report", "summarize", {"filePath": report, "format": "executive-summary"}, None),
    ]
    assert (outcome.run_id, outcome.workflow, outcome.digest) == ("run-1", "flow", plan.workflow.digest)
    assert (outcome.status, outcome.problem, outcome.message) == (RunStatus.COMPLETED, None, "")
    assert outcome.output == "output of Escalation Report"
    review, escalate, escalation = outcome.steps
    assert (review.status, review.output, review.held) == (DONE, report, None)
    assert (escalate.status, escalate.output, escalate.held) == (DONE, "output of Escalation Report", True)
    assert escalation.outcome is not None
    assert escalation.outcome.digest == plan.targets["summarize"]


async def test_the_example_of_jdai_does_not_escalate_other_findings(prepared: Callable[..., Prepared]) -> None:
    outcome = await run(*prepared(SEED, Review_Security="nothing critical"))
    assert statuses(outcome) == {
        "Review Security": DONE,
        "Escalate If Critical": DONE,
        "Escalation Report": SKIPPED,
    }
    assert outcome.output == "nothing critical"
    assert (outcome.steps[1].held, outcome.steps[1].output) == (False, None)


BRANCHES = """\
inputs: {mode: {default: short}, extra: {required: false}}
steps:
- {kind: skill, name: First, target: work, parameters: {p: "{{mode}}{{extra}}"}}
- kind: conditional
  name: Outer
  condition: "{{inputs.mode}} == 'long'"
  subSteps:
  - kind: conditional
    name: Inner
    condition: "{{previous.output}} contains 'deep'"
    subSteps: [{kind: skill, name: Deep, target: work, message: "after {{previous.output}}"}]
  - {kind: skill, name: Long, target: work, parameters: {p: "[{{steps.Deep.output}}]"}}
  else:
  - {kind: skill, name: Short, target: work}
- {kind: skill, name: Last, target: work, message: "{{steps.Outer.output}}/{{previous.output}}/{{steps.Long.output}}"}
"""


@pytest.mark.parametrize(
    ("mode", "first", "performed", "skipped", "last"),
    [
        ("short", "deep", ["First", "Short", "Last"], ["Inner", "Deep", "Long"], "output of Short/output of Short/"),
        ("long", "flat", ["First", "Long", "Last"], ["Deep", "Short"], "/".join(["output of Long"] * 3)),
        ("long", "deep", ["First", "Deep", "Long", "Last"], ["Short"], "/".join(["output of Long"] * 3)),
    ],
)
async def test_each_branch_passes_its_output_on(
    mode: str, first: str, performed: list[str], skipped: list[str], last: str, prepared: Callable[..., Prepared]
) -> None:
    plan, stage = prepared(BRANCHES, {"mode": mode}, First=first)
    outcome = await run(plan, stage)
    assert stage.steps == performed
    assert stage.effects[-1] == ("Last", "work", {}, last)
    assert stage.effects[0][2] == {"p": mode}
    assert [name for name, status in statuses(outcome).items() if status is SKIPPED] == skipped


async def test_a_step_that_fails_ends_the_workflow_with_the_steps_so_far(prepared: Callable[..., Prepared]) -> None:
    failed = RunOutcome(
        run_id="inner",
        skill="work",
        digest=None,
        status=RunStatus.FAILED,
        output="half",
        problem=RunProblem.TURN_LIMIT,
        message="25 turns were not enough",
    )
    plan, stage = prepared(BRANCHES, {"mode": "long"}, First="deep", Deep=failed)
    outcome = await run(plan, stage)
    assert stage.steps == ["First", "Deep"]
    assert (outcome.status, outcome.problem) == (RunStatus.FAILED, WorkflowProblem.STEP_FAILED)
    assert outcome.message == "the step 'Deep' did not complete: failed: turn_limit: 25 turns were not enough"
    assert statuses(outcome) == {
        "First": DONE,
        "Outer": FAILED,
        "Inner": FAILED,
        "Deep": FAILED,
        "Long": NOT_REACHED,
        "Short": SKIPPED,
        "Last": NOT_REACHED,
    }
    assert outcome.output == "deep"
    assert outcome.steps[3].output == "half"
    assert outcome.steps[3].outcome == failed


@pytest.mark.parametrize(
    ("ended", "expected"),
    [(RunStatus.CANCELLED, RunStatus.CANCELLED), (RunStatus.REFUSED, RunStatus.FAILED)],
)
async def test_a_step_that_is_cancelled_or_refused_ends_the_workflow_so(
    ended: RunStatus, expected: RunStatus, prepared: Callable[..., Prepared]
) -> None:
    first = RunOutcome(run_id="inner", skill="work", digest=None, status=ended)
    outcome = await run(*prepared(BRANCHES, First=first))
    assert (outcome.status, outcome.problem) == (expected, WorkflowProblem.STEP_FAILED)


async def test_a_workflow_continues_after_a_skill_completed_with_a_problem(prepared: Callable[..., Prepared]) -> None:
    weak = RunOutcome(
        run_id="i", skill="work", digest=None, status=RunStatus.COMPLETED, problem=RunProblem.BELOW_MIN_SCORE
    )
    assert (await run(*prepared(BRANCHES, First=weak))).status is RunStatus.COMPLETED


async def test_a_condition_that_cannot_be_decided_ends_the_workflow(prepared: Callable[..., Prepared]) -> None:
    text = BRANCHES.replace("{{inputs.mode}} == 'long'", "{{steps.First.output}} > 3")
    plan, stage = prepared(text, First="many")
    outcome = await run(plan, stage)
    assert (outcome.status, outcome.problem) == (RunStatus.FAILED, WorkflowProblem.UNDECIDED)
    assert outcome.message == "the condition of 'Outer' cannot be decided: '>' compares numbers, and got 'many'"
    assert statuses(outcome)["Outer"] is FAILED
    assert statuses(outcome)["Short"] is NOT_REACHED


async def test_a_text_that_gets_too_long_ends_the_workflow_before_its_step(prepared: Callable[..., Prepared]) -> None:
    text = BRANCHES.replace("after {{previous.output}}", "{{previous.output}}" * 600)
    plan, stage = prepared(text, {"mode": "long"}, First="deep" + "x" * 2_000)
    outcome = await run(plan, stage)
    assert (outcome.problem, stage.steps) == (WorkflowProblem.TEXT_TOO_LONG, ["First"])


async def test_progress_reports_the_finished_steps_and_the_current_one(prepared: Callable[..., Prepared]) -> None:
    heard: list[Progress] = []

    async def report(progress: Progress) -> None:
        heard.append(progress)

    plan, stage = prepared(BRANCHES, First="deep")
    await run_workflow(plan, stage.perform, MemoryJournal("r"), digest_of=stage.digests.get, report=report)
    assert heard == [
        Progress(0, 5, "First (work)"),
        Progress(1, 5, "First (work)"),
        Progress(3, 5, "Short (work)"),
        Progress(4, 5, "Short (work)"),
        Progress(4, 5, "Last (work)"),
        Progress(5, 5, "Last (work)"),
    ]


async def test_cancelling_a_run_reaches_the_skill_that_is_being_performed(prepared: Callable[..., Prepared]) -> None:
    plan, stage = prepared(BRANCHES)
    begun = anyio.Event()
    reached: list[str] = []

    async def perform(target: str, parameters: Mapping[str, str], message: str | None, step: str) -> RunOutcome:
        del target, parameters, message
        begun.set()
        try:
            await anyio.sleep_forever()
        except BaseException:
            reached.append(step)
            raise
        raise AssertionError

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def start() -> None:
                await run_workflow(plan, perform, MemoryJournal("r"), digest_of=stage.digests.get)
                raise AssertionError

            group.start_soon(start)
            await begun.wait()
            group.cancel_scope.cancel()
    assert reached == ["First"]


async def test_an_exception_of_the_performer_leaves_the_step_unfinished_and_propagates(
    prepared: Callable[..., Prepared], tmp_path: Path
) -> None:
    plan, stage = prepared(BRANCHES)

    async def perform(target: str, parameters: Mapping[str, str], message: str | None, step: str) -> RunOutcome:
        raise OSError(f"{step}: {target}, {parameters}, {message}")

    path = tmp_path / "journal"
    with pytest.raises(OSError, match="First"):
        await run_workflow(plan, perform, JournalOnDisk(path), digest_of=stage.digests.get)
    assert (await run(plan, stage, JournalOnDisk(path))).status is RunStatus.COMPLETED


def twenty_steps() -> str:
    """Return a workflow of twenty skills, of which each is handed what came before, with branches on the way."""
    lines = ["inputs: {seed: }", "steps:"]
    last = "{{seed}}"
    for number in range(1, 21):
        step = f'kind: skill, name: S{number}, target: work, parameters: {{p: "{last}"}}'
        if number % 5 == 0:
            lines += ["- kind: conditional", f"  name: C{number}"]
            lines.append(
                f"  condition: \"{{{{previous.output}}}} contains 'S{number - 1}' and not {{{{seed}}}} == ''\""
            )
            lines += [f"  subSteps: [{{{step}}}]", f"  else: [{{kind: skill, name: E{number}, target: work}}]"]
            last = f"{{{{steps.C{number}.output}}}}"
        else:
            lines.append(f"- {{{step}}}")
            last = f"{{{{steps.S{number}.output}}}}"
    return "\n".join(lines)


MOMENTS = 2 * (20 + 1)
"""Before and after each of the steps, and of the one that begins the run."""


@pytest.mark.parametrize("dies_at", [*range(MOMENTS), None])
async def test_a_run_interrupted_between_any_two_steps_continues_and_has_each_effect_once(
    dies_at: int | None, prepared: Callable[..., Prepared], tmp_path: Path
) -> None:
    plan, stage = prepared(twenty_steps(), {"seed": "tea"})
    expected = await run(plan, Stage(stage.digests))
    path = tmp_path / "journal"
    if dies_at is not None:
        with pytest.raises(ProcessDiedError):
            await run(plan, stage, JournalOnDisk(path, dies_at))
    outcome = await run(plan_from_json(plan_to_json(plan)), stage, JournalOnDisk(path))
    assert stage.steps == [f"S{number}" for number in range(1, 21)]
    assert outcome == expected
    assert outcome.output == "output of S20"
    assert [effect[2]["p"] for effect in stage.effects] == ["tea", *(f"output of S{n}" for n in range(1, 20))]


async def test_a_run_interrupted_repeatedly_completes(prepared: Callable[..., Prepared], tmp_path: Path) -> None:
    plan, stage = prepared(twenty_steps(), {"seed": "tea"})
    deaths = 0
    outcome: WorkflowOutcome | None = None
    while outcome is None:
        try:
            outcome = await run(plan, stage, JournalOnDisk(tmp_path / "journal", 1))
        except ProcessDiedError:
            deaths += 1
    assert (deaths, stage.steps) == (21, [f"S{number}" for number in range(1, 21)])
    assert outcome.status is RunStatus.COMPLETED


class TestContinuedRun:
    async def died(self, prepared: Callable[..., Prepared], journal: Path, steps: int) -> Prepared:
        plan, stage = prepared(BRANCHES)
        with pytest.raises(ProcessDiedError):
            await run(plan, stage, JournalOnDisk(journal, 2 * (steps + 1)))
        assert len(stage.effects) == steps
        return plan, stage

    async def test_a_changed_skill_is_not_performed(self, prepared: Callable[..., Prepared], tmp_path: Path) -> None:
        plan, stage = await self.died(prepared, tmp_path / "journal", 1)
        changed = Stage({"work": "sha256:new"})
        for _ in range(2):
            outcome = await run(plan, changed, JournalOnDisk(tmp_path / "journal"))
            assert changed.effects == []
            assert (outcome.status, outcome.problem) == (RunStatus.FAILED, WorkflowProblem.SKILL_CHANGED)
            assert outcome.message == (
                f"the skill 'work' has changed since the run began, from {stage.digests['work']} to sha256:new"
            )
            assert statuses(outcome)["First"] is DONE
            assert statuses(outcome)["Short"] is FAILED

    async def test_a_removed_skill_is_reported(self, prepared: Callable[..., Prepared], tmp_path: Path) -> None:
        plan, _ = await self.died(prepared, tmp_path / "journal", 1)
        outcome = await run(plan, Stage({}), JournalOnDisk(tmp_path / "journal"))
        assert outcome.problem is WorkflowProblem.SKILL_CHANGED
        assert outcome.message.endswith("to none")

    async def test_a_change_of_a_skill_after_its_last_step_does_not_matter(
        self, prepared: Callable[..., Prepared], tmp_path: Path
    ) -> None:
        plan, _ = await self.died(prepared, tmp_path / "journal", 2)
        path = tmp_path / "journal"
        stage = Stage(plan.targets)
        assert (await run(plan, stage, JournalOnDisk(path))).status is RunStatus.COMPLETED
        assert (await run(plan, Stage({}), JournalOnDisk(path))).status is RunStatus.COMPLETED

    async def test_a_new_plan_for_a_recorded_run_keeps_the_recorded_digests(
        self, prepared: Callable[..., Prepared], tmp_path: Path
    ) -> None:
        plan, _ = await self.died(prepared, tmp_path / "journal", 1)
        anew = replace(plan, targets={"work": "sha256:new"})
        outcome = await run(anew, Stage(anew.targets), JournalOnDisk(tmp_path / "journal"))
        assert outcome.problem is WorkflowProblem.SKILL_CHANGED

    async def test_another_workflow_or_other_inputs_are_refused_before_any_step(
        self, prepared: Callable[..., Prepared], tmp_path: Path
    ) -> None:
        plan, stage = await self.died(prepared, tmp_path / "journal", 1)
        other, _ = prepared(BRANCHES + "# another\n")
        outcome = await run(other, stage, JournalOnDisk(tmp_path / "journal"))
        assert outcome.problem is WorkflowProblem.WORKFLOW_CHANGED
        assert plan.workflow.digest in outcome.message
        outcome = await run(replace(plan, inputs={"mode": "long"}), stage, JournalOnDisk(tmp_path / "journal"))
        assert outcome.problem is WorkflowProblem.INPUTS_CHANGED
        assert set(statuses(outcome).values()) == {NOT_REACHED}
        assert len(stage.effects) == 1


async def test_an_outcome_with_another_digest_fails_the_step(
    prepared: Callable[..., Prepared],
) -> None:
    other = RunOutcome(run_id="i", skill="work", digest="sha256:other", status=RunStatus.COMPLETED, output="x")
    outcome = await run(*prepared(BRANCHES, First=other))
    assert outcome.problem is WorkflowProblem.SKILL_CHANGED
    assert outcome.steps[0].outcome == other


async def test_the_journal_holds_digests_of_inputs_and_not_the_inputs(
    prepared: Callable[..., Prepared], tmp_path: Path
) -> None:
    text = "inputs: {token: }\nsteps: [{kind: skill, name: A, target: work, message: '{{token}}'}]"
    await run(*prepared(text, {"token": "hunter2"}), JournalOnDisk(tmp_path / "journal"))
    assert "hunter2" not in (tmp_path / "journal").read_text()


INJECTED = """\
inputs: {{safe: {{default: "no"}}}}
steps:
- {{kind: skill, name: A, target: work}}
- kind: conditional
  name: C
  condition: "{condition}"
  subSteps: [{{kind: skill, name: Forbidden, target: work}}]
- {{kind: skill, name: B, target: work, parameters: {{p: "<{{{{steps.A.output}}}}>"}}}}
"""


@given(output=st.text() | st.sampled_from(["' or true or '", "{{inputs.safe}}", "yes' == 'yes", "true", "}} or true"]))
def test_no_output_of_a_step_is_parsed_as_a_reference_or_condition(
    output: str, prepared: Callable[..., Prepared]
) -> None:
    condition = "{{steps.A.output}} != null and {{inputs.safe}} == 'yes'"
    plan, stage = prepared(INJECTED.format(condition=condition), A=output)
    outcome = anyio.run(run, plan, stage)
    assert stage.steps == ["A", "B"]
    assert stage.effects[1][2] == {"p": f"<{output}>"}
    assert from_json(WorkflowOutcome, to_json(outcome)) == outcome
