"""The agent loop of a run: prompts go in, tool calls come out and are answered, until the model gives a final answer.

The loop is our own, on top of pydantic-ai's model requests, for three reasons. Every tool call goes through one gate,
even calls of unknown tools and with arguments that are not JSON. Each request and each call is a step of the journal,
in an order that depends only on the model's answers. And the calls of one answer are executed one after the other:
tools write to one workspace, and a user answers one question at a time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.tools import ToolDefinition

from skills_core.errors import SkillsError
from skills_core.guard.tool import CallDecision, ToolCall
from skills_core.interaction import Progress
from skills_core.runs.journal import from_json, timed_step, to_json
from skills_core.runs.models import describe_model_error, hint_for
from skills_core.runs.outcome import RunProblem, Usage
from skills_core.runs.trace import ModelCalled, ToolCalled, now, record_call, tool_span

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ToolCallPart
    from pydantic_ai.models import Model

    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.guard.tool import Secrets
    from skills_core.guard.tool_gate import ToolGate
    from skills_core.interaction import ProgressCallback
    from skills_core.runs.journal import Journal
    from skills_core.runs.outcome import RunLimits
    from skills_core.runs.trace import TraceRecorder

logger = logging.getLogger(__name__)

MAX_ERROR_TEXT = 500
"""Most characters of a provider's error message."""

# Texts may be private, so spans leave them out; the trace on disk has them.
INSTRUMENTATION = InstrumentationSettings(include_content=False, include_model_request_parameters=False)


class RunStoppedError(SkillsError):
    """A run cannot continue; the outcome says why."""

    def __init__(self, problem: RunProblem, message: str) -> None:
        super().__init__(message)
        self.problem = problem
        self.message = message


class ModelConversation:
    """One conversation with a model: its messages, its tool calls, and its usage."""

    def __init__(  # noqa: PLR0913 - one for each part of a run
        self,
        model: Model,
        instructions: str,
        gate: ToolGate,
        *,
        journal: Journal,
        limits: RunLimits,
        recorder: TraceRecorder,
        report: ProgressCallback,
        secrets: Secrets,
        on_call: Callable[[ToolCall], None] = lambda _: None,
        on_repeated: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Start with `instructions`, which precede every request; no request is made yet.

        `on_call` receives each tool call once it is recorded, also in a continued run, and may raise `RunStoppedError`.
        `on_repeated` receives the seconds of each step of a continued run that was finished before.
        """
        self._model = model
        self._instructions = instructions
        self._gate = gate
        self._journal = journal
        self._limits = limits
        self._recorder = recorder
        self._report = report
        self._secrets = secrets
        self._on_call = on_call
        self._on_repeated = on_repeated
        self._messages: list[ModelMessage] = []
        self._parameters = ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=tool.name,
                    description=secrets.redact(tool.description),
                    # Other servers write these, and some repeat values they were started with.
                    parameters_json_schema=cast("dict[str, Any]", secrets.redact_json(dict(tool.parameters))),
                )
                for tool in gate.offered
            ]
        )
        self.usage = Usage()
        self.calls: list[ToolCall] = []
        self.cut = False
        """Whether the model's own token limit cut the last answer."""

    async def say(self, prompt: str) -> str:
        """Return the model's answer to `prompt`, after executing its tool calls.

        Raises:
            RunStoppedError: the request fails, the answer is empty, or a limit is reached.
        """
        parts: Sequence[ModelRequestPart] = [UserPromptPart(prompt)]
        while True:
            self._messages.append(ModelRequest(parts, instructions=self._instructions))
            response = await self._ask()
            self._messages.append(response)
            wanted = response.tool_calls
            if not wanted:
                return self._answer(response)
            parts = [await self._carry_out(call) for call in wanted]

    async def _ask(self) -> ModelResponse:
        self.check_limits()
        number = self.usage.requests + 1
        await self._tell(f"asking the model ({number})")
        recorded = await timed_step(self._journal, f"model {number}", self._request, self._on_repeated)
        event, response = _read_response(recorded)
        self.usage += event.usage
        await self._recorder.add(event)
        if response is None:
            raise RunStoppedError(RunProblem.MODEL_ERROR, event.error or "The model did not answer.")
        return response

    async def _request(self) -> JsonObject:
        """Make a request to the model. A failure is a result too, so that a replay does not repeat the request."""
        at = now()
        try:
            response = await model_request(
                self._model, self._messages, model_request_parameters=self._parameters, instrument=INSTRUMENTATION
            )
            # A model that knows a secret, for example from the user, may repeat it, and answers are recorded.
            dumped = self._secrets.redact_json(ModelMessagesTypeAdapter.dump_python([response], mode="json")[0])
            _load_response(dumped)  # an answer that cannot be read back must not be recorded
        except Exception as error:
            said = self._secrets.redact(describe_model_error(error))[:MAX_ERROR_TEXT]
            fault = " ".join(filter(None, (said, hint_for(self._model, error))))
            logger.info("run %s: %s", self._journal.run_id, fault)
            logger.debug("run %s: the request to the model", self._journal.run_id, exc_info=True)
            return {"at": at, "error": fault, "response": None}
        return {"at": at, "error": None, "response": dumped}

    @property
    def turns_left(self) -> int:
        """The number of requests that the limit still allows."""
        return max(self._limits.turns - self.usage.requests, 0)

    def check_limits(self) -> None:
        """Check that the limits allow another request.

        Raises:
            RunStoppedError: a limit is reached.
        """
        if self.usage.requests >= self._limits.turns:
            message = f"The model was asked {self._limits.turns} times and has not finished."
            raise RunStoppedError(RunProblem.TURN_LIMIT, message)
        used = self.usage.input_tokens + self.usage.output_tokens
        if used >= self._limits.tokens:
            message = f"The run has used {used} tokens; the limit is {self._limits.tokens}."
            raise RunStoppedError(RunProblem.TOKEN_LIMIT, message)

    async def _carry_out(self, wanted: ToolCallPart) -> ToolReturnPart:
        number = len(self.calls) + 1
        if number > self._limits.calls:
            message = f"The model has called tools {self._limits.calls} times and has not finished."
            raise RunStoppedError(RunProblem.CALL_LIMIT, message)
        await self._tell(f"calling {wanted.tool_name[:100]}")
        known = wanted.tool_name if self._gate.knows(wanted.tool_name) else None

        async def work() -> JsonObject:
            at = now()
            with tool_span(self._journal.run_id, known, number) as span:
                call = await self._gate.call(wanted.tool_name, _arguments_of(wanted), number)
                record_call(span, call)
            return {"at": at, "call": to_json(call)}

        name = f"tool {number}: {wanted.tool_name[:100]}"
        recorded = await timed_step(self._journal, name, work, self._on_repeated)
        event = ToolCalled(str(recorded["at"]), from_json(ToolCall, recorded["call"]))
        self.calls.append(event.call)
        self._on_call(event.call)
        await self._recorder.add(event)
        return ToolReturnPart(
            wanted.tool_name,
            event.call.text,
            wanted.tool_call_id,
            outcome="success" if event.call.decision is CallDecision.DONE else "failed",
        )

    def _answer(self, response: ModelResponse) -> str:
        text = (response.text or "").strip()
        if response.finish_reason == "content_filter":
            raise RunStoppedError(RunProblem.MODEL_ERROR, "The model's provider withheld the answer (content filter).")
        if not text:
            raise RunStoppedError(RunProblem.NO_OUTPUT, "The model ended without an answer.")
        self.cut = response.finish_reason == "length"
        return text

    async def _tell(self, message: str) -> None:
        await self._report(Progress(self.usage.requests + len(self.calls), None, message))


def _arguments_of(wanted: ToolCallPart) -> JsonValue:
    """Return the arguments as an object, or the model's text if it is not a JSON object."""
    try:
        arguments = wanted.args_as_dict(raise_if_invalid=True)
        json.dumps(arguments, allow_nan=False)  # NaN is valid in Python, but not in JSON
    except (ValueError, AssertionError):
        return wanted.args if isinstance(wanted.args, str) else None
    else:
        return arguments


def _read_response(recorded: JsonObject) -> tuple[ModelCalled, ModelResponse | None]:
    at, seconds, error = str(recorded["at"]), recorded["seconds"], recorded["error"]
    assert isinstance(seconds, (int, float))  # noqa: S101 - as it was recorded
    if recorded["response"] is None:
        return ModelCalled(at, seconds, usage=Usage(1), error=str(error)), None
    response = _load_response(recorded["response"])
    event = ModelCalled(
        at,
        seconds,
        response.model_name,
        response.text or "",
        tuple(call.tool_name for call in response.tool_calls),
        response.finish_reason,
        Usage(1, response.usage.input_tokens, response.usage.output_tokens),
    )
    return event, response


def _load_response(dumped: JsonValue) -> ModelResponse:
    response = ModelMessagesTypeAdapter.validate_json(json.dumps([dumped], allow_nan=False))[0]
    assert isinstance(response, ModelResponse)  # noqa: S101 - as it was made
    return response
