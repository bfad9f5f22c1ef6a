"""The checks of a change on disk: it must load, pass the audit, and not do worse than the version before.

Evals perform both versions: a version with the verdict `worse` is not taken, and one whose pass rate falls without a
verdict is left to a person. A skill without evals replays the failing step of the run
against the improved text, without carrying anything out: the model gets the new text, the user's request, and the
recorded results of the steps before the failure. It is asked once what it does next. The answer is judged and
discarded, because the calls could have effects.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import anyio
import anyio.to_thread
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from server.capabilities.evals.iterations.plan import EvalOptions, plan_eval
from server.capabilities.evals.iterations.session import EvalSession, check_models
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.skill_runner import open_toolset
from server.capabilities.scripts.factory import script_runner, variables_of
from skills_core.errors import InvalidSchemaError, SkillsError
from skills_core.evals.grading.cases import EVALS_FILE
from skills_core.evals.grading.results import Arm
from skills_core.evals.statistics import EffectVerdict
from skills_core.guard.allowed_tools import AllowedTools
from skills_core.guard.argument_validator import ArgumentValidator
from skills_core.improve.improvement import (
    ImprovementReason,
    ImprovementRefusal,
    NextCall,
    refusal_of_replay,
    steps_before_failure,
)
from skills_core.rendering.activation import activation_inputs, render_activations, render_request
from skills_core.runs.model_conversation import INSTRUMENTATION
from skills_core.runs.models import connected, describe_model_error
from skills_core.runs.run_skills import RunSkills
from skills_core.runs.spending import BoundReachedError
from skills_core.runs.tools.own_tools import recipient_for

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model

    from server.capabilities.improve.installation import ImprovementFolders
    from server.capabilities.runs.metering import Meter
    from server.config.settings.model import Settings
    from skills_core.format.yaml12 import JsonValue
    from skills_core.guard.tool import Tool
    from skills_core.runs.executor import RunRequest
    from skills_core.runs.outcome import RunOutcome
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

EVAL_SECONDS = 1800.0
"""Time limit for the evals of one change."""

_AT_ONCE = 2


def has_evals(folders: ImprovementFolders) -> bool:
    """Tell whether the skill has evals."""
    return (folders.before / EVALS_FILE).is_file()


class MeasuredByEvals(NamedTuple):
    """What evals say of a change: why it is not taken, or why a person decides; and the pass rates of both versions."""

    refusal: ImprovementRefusal | None = None
    doubt: ImprovementRefusal | None = None
    rates: Mapping[str, Any] = {}


async def measure_by_evals(folders: ImprovementFolders, settings: Settings, meter: Meter) -> MeasuredByEvals:
    """Run the evals of both versions; a change that cannot be measured is not taken.

    Raises:
        BoundReachedError: a bound of the costs was reached.
    """
    try:
        with anyio.fail_after(EVAL_SECONDS):
            benchmark = await _benchmark(folders, settings, meter)
    except BoundReachedError:
        raise
    except TimeoutError:
        message = f"the evals took longer than {EVAL_SECONDS:g} seconds"
        return MeasuredByEvals(ImprovementRefusal(ImprovementReason.EVALS_FAILED, message))
    except (SkillsError, OSError) as error:
        return MeasuredByEvals(ImprovementRefusal(ImprovementReason.EVALS_FAILED, str(error)))
    return measured_by_benchmark(benchmark)


def measured_by_benchmark(benchmark: Mapping[str, Any]) -> MeasuredByEvals:
    """Return what the results of evals say of a change.

    Without a verdict a lower pass rate may be chance: it neither drops a correction nor lets it pass.
    """
    before, after = (_rate(benchmark, arm) for arm in (Arm.OLD_SKILL, Arm.WITH_SKILL))
    verdict = benchmark["effect"]["verdict"]
    rates = {"before": before, "after": after, "verdict": verdict}
    if before is None or after is None or _has_errors(benchmark):
        message = "a run of the evals failed or could not be graded"
        return MeasuredByEvals(ImprovementRefusal(ImprovementReason.EVALS_FAILED, message), rates=rates)
    fall = f"the pass rate would fall from {before:.0%} to {after:.0%}"
    if verdict == EffectVerdict.WORSE:
        return MeasuredByEvals(ImprovementRefusal(ImprovementReason.PASS_RATE_LOWER, fall), rates=rates)
    if after < before:
        message = f"{fall}, which may be chance, so you decide"
        return MeasuredByEvals(doubt=ImprovementRefusal(ImprovementReason.PASS_RATE_LOWER, message), rates=rates)
    return MeasuredByEvals(rates=rates)


async def _benchmark(folders: ImprovementFolders, settings: Settings, meter: Meter) -> dict[str, Any]:
    options = EvalOptions(
        skill=folders.after,
        workspace=folders.evals,
        baseline=str(folders.before),
        jobs=_AT_ONCE,
        seconds=float(settings.section(RunSettings).seconds),
        new=True,
    )
    plan = await anyio.to_thread.run_sync(plan_eval, options, settings, folders.root / "revision")
    check_models(plan, settings, meter.bounds)
    benchmark = await EvalSession(plan, settings, logger.info, meter=meter).run()
    if meter.stopped:
        raise BoundReachedError(str(benchmark["stopped"]))
    return benchmark


def _rate(benchmark: Mapping[str, Any], arm: Arm) -> float | None:
    rate = benchmark["run_summary"][arm.value]["pass_rate"]["mean"]
    return None if rate is None else float(rate)


def _has_errors(benchmark: Mapping[str, Any]) -> bool:
    return any(run["result"] is None or run["result"].get("errors") for run in benchmark["runs"])


REQUEST_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The tools that the failed run had, and what its `allowed-tools` permit."""

    tools: tuple[Tool, ...]
    permits: AllowedTools

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools that the model sees."""
        return tuple(tool.name for tool in self.offered)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that the model sees."""
        return tuple(filter(self.permits.offers, self.tools))

    def definitions(self) -> list[ToolDefinition]:
        """Return the tools as a model's request has them."""
        return [
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=cast("dict[str, Any]", dict(tool.parameters)),
            )
            for tool in self.offered
        ]

    def fault_of(self, call: NextCall) -> str:
        """Return why a call could not be made, empty if it could."""
        tool = next((each for each in self.offered if each.name == call.tool), None)
        if tool is None:
            return "there is no such tool in this run"
        if call.arguments is None:
            return "its arguments are not a JSON object"
        arguments = dict(call.arguments)
        try:
            return ArgumentValidator(tool.parameters).errors(arguments) or self.permits.refusal(tool, arguments)
        except InvalidSchemaError as error:
            return str(error)


async def replay_failed_step(
    outcome: RunOutcome, request: RunRequest, skills: Sequence[Skill], offered: OfferedTools, model: Model
) -> ImprovementRefusal | None:
    """Return why the failure would happen again with these skills, None if it would not; the performed one is last.

    Raises:
        BoundReachedError: the model has bounds, and they leave no room.
    """
    steps = steps_before_failure(outcome)
    if steps is None:
        return ImprovementRefusal(ImprovementReason.REPLAY_FAILED, "too many steps precede the failed one to replay it")
    values, message = activation_inputs(request.skill, request.parameters, request.message)
    *others, performed = skills
    included: list[tuple[Skill, Mapping[str, str]]] = [*((each, {}) for each in others), (performed, values)]
    instructions = "\n\n".join(render_activations(included, recipient_for(offered.tools)))
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart(render_request(performed, message))], instructions=instructions)
    ]
    for step in steps:
        number = f"call-{step.number}"
        messages.append(ModelResponse([ToolCallPart(step.tool, dict(step.arguments), number)]))
        messages.append(ModelRequest([ToolReturnPart(step.tool, step.text, number)], instructions=instructions))
    parameters = ModelRequestParameters(function_tools=offered.definitions())
    try:
        with anyio.fail_after(REQUEST_SECONDS):
            async with connected(model):
                response = await model_request(
                    model, messages, model_request_parameters=parameters, instrument=INSTRUMENTATION
                )
    except BoundReachedError:
        raise
    except Exception as error:  # noqa: BLE001 - a provider may raise anything
        return ImprovementRefusal(ImprovementReason.REPLAY_FAILED, describe_model_error(error)[:500])
    wanted = [NextCall(part.tool_name, _arguments(part)) for part in response.tool_calls]
    return refusal_of_replay(outcome, wanted, offered.fault_of)


def _arguments(part: ToolCallPart) -> Mapping[str, JsonValue] | None:
    try:
        return part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return None


@asynccontextmanager
async def offered_tools(settings: Settings, skills: Sequence[Skill]) -> AsyncGenerator[OfferedTools]:
    """Yield the tools of a run with these skills, the performed one last; none of them is called.

    Raises:
        ConfigurationError: a setting cannot be used.
    """
    performed = skills[-1]
    runner = await anyio.to_thread.run_sync(script_runner, settings)
    variables = {skill.key: variables_of(skill) for skill in skills}
    permits = AllowedTools(performed.frontmatter.allowed_tools)
    async with open_toolset(settings, RunSkills(performed), runner, variables) as toolset:
        yield OfferedTools(toolset.tools, permits)
