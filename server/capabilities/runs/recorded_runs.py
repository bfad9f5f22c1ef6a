"""What is recorded of a run when it begins, and what a run that is continued reads back.

Its skills are pinned by their digests, so that a continued run has the same instructions, and it has no tools that its
client could not use. A run that cannot be performed or finished has an outcome too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from server.capabilities.scripts.declared_listing import settings_name
from server.capabilities.scripts.settings import RUN_SKILL_SCRIPT
from server.config.files import ConfigurationError
from skills_core.diagnostics import one_line
from skills_core.errors import InvalidRecordError, SkillsError, UnknownSkillError
from skills_core.runs.durable.recorded_run import RUN_FORMAT, RunConflictError, RunState
from skills_core.runs.models import ModelUnavailableError
from skills_core.runs.outcome import ActivationOrigin, RunOutcome, RunProblem, RunStatus
from skills_core.runs.run_skills import Companion, select_skills
from skills_core.runs.workflow.model import WorkflowOutcome, WorkflowProblem

if TYPE_CHECKING:
    from server.capabilities.runs.skill_runner import RunParticipants
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.runs.durable.recorded_run import RunNotDoneError
    from skills_core.runs.run_skills import SkillSelection
    from skills_core.runs.workflow.plan import Plan
    from skills_core.skills.skill import Skill


class PinnedSkillChangedError(SkillsError):
    """A skill is not as it was when the run began."""

    def __init__(self, key: str, pinned: object, digest: str | None) -> None:
        what = f"The skill {one_line(key)} has changed since the run began, from {pinned} to {digest}"
        super().__init__(f"{what}; begin a new run.")


def pinned_skill(catalog: Catalog, key: str, digest: object) -> Skill:
    """Return the active skill with this key, as it was pinned.

    Raises:
        UnknownSkillError: there is no such skill any more.
        PinnedSkillChangedError: it has another digest.
    """
    skill = catalog.skill(key)
    if skill.digest != digest:
        raise PinnedSkillChangedError(key, digest, skill.digest)
    return skill


def companions_to_json(companions: Iterable[Companion]) -> list[JsonValue]:
    """Encode the companions of a run for its record."""
    return [
        {
            "skill": each.skill.settings_key,
            "digest": each.skill.digest,
            "origin": each.origin.value,
            "included": each.included,
        }
        for each in companions
    ]


def companions_from_json(record: JsonValue, catalog: Catalog) -> tuple[Companion, ...]:
    """Return the recorded companions of a run.

    Raises:
        UnknownSkillError: one of them is not there any more.
        PinnedSkillChangedError: one of them has another digest.
        InvalidRecordError: the record is damaged.
    """
    companions: list[Companion] = []
    for each in record if isinstance(record, list) else [record]:
        match each:
            case {"skill": str(key), "digest": digest, "origin": str(origin), "included": bool(included)}:
                companions.append(Companion(pinned_skill(catalog, key, digest), ActivationOrigin(origin), included))
            case _:
                raise InvalidRecordError("companions", "expected a list of skills")
    return tuple(companions)


def recorded_selection(skill: Skill, catalog: Catalog, companions: JsonValue) -> SkillSelection:
    """Return the skills of a run of `skill`, with its recorded companions.

    Raises:
        UnknownSkillError: a companion is not there any more.
        PinnedSkillChangedError: a companion has another digest.
        InvalidRecordError: the record is damaged.
    """
    return replace(select_skills(skill, catalog), companions=companions_from_json(companions, catalog))


_WITHHELD = "withheld_tools"


def withheld_tools(skill: Skill, participants: RunParticipants) -> JsonObject:
    """Return what is recorded of the tools that a run of `skill` has not; nothing if it has all."""
    names = [RUN_SKILL_SCRIPT]
    names += [settings_name(skill, tool) for tool in skill.frontmatter.tools]
    withheld: list[JsonValue] = [name for name in names if not participants.allows(name)]
    return {_WITHHELD: withheld} if withheld else {}


def with_recorded_rights(participants: RunParticipants, inputs: Mapping[str, JsonValue]) -> RunParticipants:
    """Return the participants of a run without the tools that it was recorded not to have.

    A run that another process continues has no client whose roles could tell.
    """
    withheld = inputs.get(_WITHHELD)
    if not isinstance(withheld, list):
        return participants
    allows = participants.allows
    return replace(participants, allows=lambda name: name not in withheld and allows(name))


def failed_outcome(run_id: str, skill: str, problem: RunProblem, message: str, digest: str | None = None) -> RunOutcome:
    """Return the outcome of a skill that could not be run."""
    return RunOutcome(
        run_id=run_id, skill=skill, digest=digest, status=RunStatus.FAILED, problem=problem, message=message
    )


async def recorded_outcome(
    run_id: str,
    skill: str,
    work: Callable[[], Awaitable[RunOutcome]],
    configuration_errors: tuple[type[Exception], ...] = (),
) -> RunOutcome:
    """Return the outcome of `work`, also if the skill cannot be run, so that the record of the run has one.

    `configuration_errors` are further errors that mean a wrong configuration.
    """
    of_configuration: tuple[type[Exception], ...] = (ModelUnavailableError, ConfigurationError, *configuration_errors)
    try:
        return await work()
    except (UnknownSkillError, PinnedSkillChangedError, InvalidRecordError) as error:
        return failed_outcome(run_id, skill, RunProblem.SKILL_CHANGED, str(error))
    except of_configuration as error:
        return failed_outcome(run_id, skill, RunProblem.CONFIGURATION, str(error))


def unfinished_outcome(run_id: str, skill: str, digest: str | None, error: RunNotDoneError) -> RunOutcome:
    """Return the outcome of a skill whose run is recorded as cancelled, failed or given up."""
    if error.run.state is RunState.CANCELLED:
        outcome = failed_outcome(run_id, skill, RunProblem.CANCELLED, str(error), digest)
        return replace(outcome, status=RunStatus.CANCELLED)
    return failed_outcome(run_id, skill, RunProblem.GIVEN_UP, str(error), digest)


def unfinished_workflow_outcome(run_id: str, plan: Plan, error: RunNotDoneError) -> WorkflowOutcome:
    """Return the outcome of a workflow whose run is recorded as cancelled, failed or given up."""
    cancelled = error.run.state is RunState.CANCELLED
    return WorkflowOutcome(
        run_id=run_id,
        workflow=plan.workflow.name,
        digest=plan.workflow.digest,
        status=RunStatus.CANCELLED if cancelled else RunStatus.FAILED,
        steps=(),
        problem=WorkflowProblem.CANCELLED if cancelled else WorkflowProblem.GIVEN_UP,
        message=str(error),
    )


def conflict_details(error: RunConflictError, kind: str, inputs: JsonObject) -> RunConflictError:
    """Explain the conflict when the run belongs to another worker pool or run format, or when only skills differ."""
    recorded = error.recorded
    if recorded is None:
        return RunConflictError(error.run_id, "by a process with other folders, another model or other tools")
    if recorded.kind != kind or kind != "skill":
        return error
    if recorded.run_format != str(RUN_FORMAT):
        # Formats differ in the names of inputs too, so only those of both can be compared.
        same = all(inputs.get(name, given) == given for name, given in recorded.given.items() if name != "digest")
        how = "by a version with another run format, which alone can continue or read it"
        return RunConflictError(error.run_id, how, recorded, "Choose another name.") if same else error
    skills: JsonObject = dict.fromkeys(("digest", "companions", "restricted"))
    if {**recorded.given, **skills} != {**inputs, **skills}:
        return error
    changed = f"and the skill has changed since, from {recorded.given.get('digest')} to {inputs['digest']}"
    if recorded.given.get("digest") == inputs["digest"]:
        changed = (
            "and the skills that go with it (always on or required) have changed since, or its client sees other skills"
        )
    return RunConflictError(error.run_id, changed, recorded)
