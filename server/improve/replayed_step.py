"""Replay the failing step of a run against the improved text, without carrying anything out.

The model gets the new text, the user's request, and the recorded results of the steps before the failure. It is asked
once what it does next; the answer is judged and discarded, because the calls could have effects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import anyio
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from skills_core.errors import InvalidSchemaError
from skills_core.guard.argument_validator import ArgumentValidator
from skills_core.improve.reasons import ImprovementReason, Refusal
from skills_core.improve.replay import NextCall, refusal_of_replay, steps_before_failure
from skills_core.rendering.activation import activation_inputs, render_activations, render_request
from skills_core.run.model_conversation import INSTRUMENTATION
from skills_core.run.models import connected, describe_model_error
from skills_core.run.tools.own_tools import recipient_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model

    from skills_core.format.yaml12 import JsonValue
    from skills_core.guard.allowed_tools import AllowedTools
    from skills_core.guard.tool import Tool
    from skills_core.run.executor import RunRequest
    from skills_core.run.outcome import RunOutcome
    from skills_core.skill import Skill

__all__ = ["OfferedTools", "replay_failed_step"]

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
) -> Refusal | None:
    """Return why the failure would happen again with these skills, None if it would not; the performed one is last."""
    steps = steps_before_failure(outcome)
    if steps is None:
        return Refusal(ImprovementReason.REPLAY_FAILED, "too many steps precede the failed one to replay it")
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
    except Exception as error:  # noqa: BLE001 - a provider may raise anything
        return Refusal(ImprovementReason.REPLAY_FAILED, describe_model_error(error)[:500])
    wanted = [NextCall(part.tool_name, _arguments(part)) for part in response.tool_calls]
    return refusal_of_replay(outcome, wanted, offered.fault_of)


def _arguments(part: ToolCallPart) -> Mapping[str, JsonValue] | None:
    try:
        return part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return None
