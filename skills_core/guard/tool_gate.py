"""The gate that every tool call of a run goes through.

In order: is the tool known, is the call permitted, do the arguments fit, what does the guard decide; then a deadline,
and a limit on the reply to the model. A mistake of the model or a tool becomes a decision and a reply to the model,
never an exception; cancellation propagates.
"""

from __future__ import annotations

import copy
import logging
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from skills_core.diagnostics import one_line, without_lone_surrogates
from skills_core.errors import InvalidSchemaError, ToolFailedError, UnansweredError, did_you_mean, similar_to
from skills_core.guard.argument_validator import ArgumentValidator
from skills_core.guard.guard import Verdict, json_text, log_decision
from skills_core.guard.tool import CallContext, CallDecision, Secrets, ToolCall

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.guard.allowed_tools import AllowedTools
    from skills_core.guard.guard import Guard, GuardDecision
    from skills_core.guard.tool import CallLimits, Tool
    from skills_core.interaction import User

logger = logging.getLogger(__name__)

MAX_QUESTION = 2000
"""Most characters of arguments in a question to the user."""

_MAX_NAME = 100

_SEVERITY: Final = {Verdict.ALLOW: 0, Verdict.CONFIRM: 1, Verdict.DENY: 2}


@dataclass(frozen=True, slots=True)
class _Admission:
    """Why a call is refused, or with `decision` None, that it may be executed."""

    decision: CallDecision | None
    text: str = ""
    reason: str = ""
    guard: GuardDecision | None = None
    confirmed: bool = False


class ToolGate:
    """The tools of one run; `offered` are those that the model sees, in the given order."""

    def __init__(  # noqa: PLR0913 - one for each part of a decision
        self,
        tools: Sequence[Tool],
        permits: AllowedTools,
        guard: Guard,
        user: User,
        limits: CallLimits,
        *,
        run_id: str,
        digest: str = "",
        secrets: Secrets | None = None,
        ensure_owned: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
    ) -> None:
        """Admit calls of `tools`; `digest` is that of the skill being run, for the log.

        `secrets` are redacted in replies and logs. Of two tools with one name the first counts. A tool with an unusable
        schema is left out; checking takes about 10 ms per tool. `ensure_owned` is called before a tool is executed, and
        cancels the call if another worker has taken over the run: the question to the user may have taken long.
        """
        self._permits = permits
        self._guard = guard
        self._user = user
        self._limits = limits
        self._run_id = run_id
        self._digest = digest
        self._secrets = secrets or Secrets({})
        self._ensure_owned = ensure_owned
        self._tools: dict[str, Tool] = {}
        self._checks: dict[str, ArgumentValidator] = {}
        for tool in tools:
            self._add(tool)
        self.offered = tuple(tool for tool in self._tools.values() if permits.offers(tool))

    def _add(self, tool: Tool) -> None:
        if tool.name in self._tools:
            logger.warning("run %s: a second tool %s (%s) is left out", self._run_id, tool.name, tool.origin)
            return
        try:
            self._checks[tool.name] = ArgumentValidator(tool.parameters)
        except InvalidSchemaError as error:
            logger.warning("run %s: the tool %s (%s) is left out: %s", self._run_id, tool.name, tool.origin, error)
            return
        self._tools[tool.name] = tool

    def knows(self, name: str) -> bool:
        """Tell whether a tool of this name exists, permitted or not; models may call any name."""
        return name in self._tools

    def without_built_in(self, why: str) -> ToolGate:
        """Return a gate that does not offer the built-in tools; the log says `why`."""
        gate = copy.copy(self)
        gate.offered = tuple(tool for tool in self.offered if not tool.built_in)
        for tool in self.offered:
            if tool.built_in:
                logger.info("run %s: %s is left out: %s", self._run_id, tool.name, why)
        return gate

    async def call(self, name: str, arguments: JsonValue, number: int) -> ToolCall:
        """Decide on call `number` of the run, execute it if admitted, and return its record."""
        given = arguments if isinstance(arguments, dict) else {}
        tool = self._tools.get(name)
        began = anyio.current_time()
        admission = self._unknown(name) if tool is None else await self._admit(tool, arguments)
        decision, text, reason = admission.decision, admission.text, admission.reason
        if tool is not None and decision is None:
            decision, text, reason = await self._carry_out(tool, given, number)
        call = ToolCall(
            number=number,
            tool=name,
            arguments=_redacted(self._secrets, given),
            decision=decision or CallDecision.FAILED,
            text=self._cut(self._secrets.redact(text)),
            reason=self._secrets.redact(reason),
            confirmed=admission.confirmed,
            seconds=round(anyio.current_time() - began, 3),
        )
        self._log(call, tool, admission.guard)
        return call

    def _unknown(self, name: str) -> _Admission:
        hint = did_you_mean(similar_to(name, (tool.name for tool in self.offered)))
        text = f"There is no tool {one_line(name)[:_MAX_NAME]!r} in this run.{hint}"
        return _Admission(CallDecision.UNKNOWN_TOOL, text, "there is no such tool")

    async def _admit(self, tool: Tool, arguments: JsonValue) -> _Admission:
        # Schemas and patterns from elsewhere may be slow, so they are checked in a thread.
        admission = await anyio.to_thread.run_sync(self._admit_without_user, tool, arguments)
        if admission.decision is None and admission.guard is not None and admission.guard.verdict is Verdict.CONFIRM:
            return await self._confirm(tool, arguments, admission.guard)
        return admission

    def _admit_without_user(self, tool: Tool, arguments: JsonValue) -> _Admission:
        """Decide on a call, except for the user's confirmation."""
        if not self._permits.offers(tool):
            return _not_permitted(tool, "the skill's allowed-tools do not name it")
        errors = self._checks[tool.name].errors(arguments)
        if errors or not isinstance(arguments, dict):
            text = f"The call of {tool.name} was not made, its arguments do not fit:\n{errors}"
            return _Admission(CallDecision.INVALID_ARGUMENTS, text, errors)
        if refusal := self._permits.refusal(tool, arguments):
            return _not_permitted(tool, refusal)
        if self._secrets.has_placeholder(arguments):
            why = "they hold a placeholder such as [secret NAME], which would be written over the secret itself"
            text = f"The call of {tool.name} was not made, because of its arguments: {why}."
            return _Admission(CallDecision.INVALID_ARGUMENTS, text, why)
        decision = self._decide(tool, arguments)
        if decision.verdict is Verdict.DENY:
            return _Admission(CallDecision.DENIED, decision.reason, decision.reason, decision)
        return _Admission(None, guard=decision)

    def _decide(self, tool: Tool, arguments: JsonObject) -> GuardDecision:
        """Return the strictest decision of the guard on the forms of the call that patterns may be written for.

        Those are each name of the tool, and a command as a shell line: patterns are written for `rm -rf`, and in JSON
        the list of words has quotes and commas in between. A path has its right spelling, if the tool accepts another.
        """
        forms, command = [arguments], tool.role.command
        if command is not None and isinstance(words := arguments.get(command), list):
            forms.append({**arguments, command: shlex.join(map(str, words))})
        if tool.spelled is not None:
            forms.append(tool.spelled(arguments))
        names = dict.fromkeys([tool.name, tool.declared_name or tool.name])
        decisions = [self._guard.decide(name, form) for name in names for form in forms]
        return max(decisions, key=lambda decision: _SEVERITY[decision.verdict])

    async def _confirm(self, tool: Tool, arguments: JsonValue, decision: GuardDecision) -> _Admission:
        question = confirmation_question(tool.name, tool.origin, arguments, decision.reason)
        if question is None:
            text = f"{decision.reason} The arguments are too long to be shown to the user: make them shorter."
            return _Admission(CallDecision.NOBODY_TO_ASK, text, decision.reason, decision)
        try:
            agreed = await self._user.confirm(question)
        except Exception:
            logger.exception("run %s: the user could not be asked", self._run_id)
            agreed = None
        if agreed:
            return _Admission(None, guard=decision, confirmed=True)
        if agreed is None:
            text = f"{decision.reason} No user can be asked, so the call was not made."
            return _Admission(CallDecision.NOBODY_TO_ASK, text, decision.reason, decision)
        text = f"{decision.reason} The user declined. Do not try it again in another way; ask what to do instead."
        return _Admission(CallDecision.DECLINED, text, decision.reason, decision)

    async def _carry_out(self, tool: Tool, arguments: JsonObject, number: int) -> tuple[CallDecision, str, str]:
        key, characters = f"{self._run_id}/{number}", self._limits.characters
        context = CallContext(self._run_id, key, self._user, characters, self._secrets.redact)
        await self._ensure_owned()
        with anyio.move_on_after(None if tool.waits_for_user else self._limits.seconds):
            try:
                return CallDecision.DONE, await tool.perform(arguments, context), ""
            except Exception as error:  # noqa: BLE001 - a tool may raise anything
                return self._failed(tool, error)
        # Only the deadline exits the block without a result.
        why = f"it took longer than {self._limits.seconds:g} seconds"
        text = f"The call of {tool.name} was stopped: {why}. Parts of it may have been done."
        return CallDecision.TIMED_OUT, text, why

    def _failed(self, tool: Tool, error: Exception) -> tuple[CallDecision, str, str]:
        told = _tool_error(error)
        if isinstance(told, UnansweredError):
            return CallDecision.NOBODY_TO_ASK, str(told), "no user answers"
        if told is not None:
            return CallDecision.FAILED, str(told), one_line(str(told))[:MAX_QUESTION]
        # Messages of other errors may contain private data: addresses, paths, tokens.
        logger.warning("run %s: the tool %s raised %s", self._run_id, tool.name, type(error).__name__)
        logger.debug("run %s: the tool %s", self._run_id, tool.name, exc_info=error)
        return CallDecision.FAILED, f"The tool {tool.name} failed with an internal error.", "internal error"

    def _cut(self, text: str) -> str:
        text, limit = without_lone_surrogates(text), self._limits.characters
        if len(text) <= limit:
            return text
        return f"{text[:limit]}\n[{len(text) - limit} more characters are not shown]"

    def _log(self, call: ToolCall, tool: Tool | None, decision: GuardDecision | None) -> None:
        name = one_line(call.tool)[:_MAX_NAME]
        origin = one_line(tool.origin)[:_MAX_NAME] if tool else "nowhere"
        where = f"{self._run_id}/{call.number}"
        logger.info("tool call %s: %s %s of %s, skill %s", where, call.decision, name, origin, self._digest or "-")
        if decision is not None:
            log_decision(call.tool, decision)


def _redacted(secrets: Secrets, arguments: JsonObject) -> JsonObject:
    redact = secrets.redact_json(arguments)
    assert isinstance(redact, dict)  # noqa: S101 - it was one
    return redact


def confirmation_question(tool: str, origin: str, arguments: JsonValue, reason: str) -> str | None:
    """Return the question to the user before a call, None if it is too long to be shown whole."""
    shown = one_line(json_text(arguments))
    if len(shown) > MAX_QUESTION:
        return None
    return f"{reason}\n\n{tool} ({one_line(origin)}) {shown}\n\nMay it be done?"


def _not_permitted(tool: Tool, why: str) -> _Admission:
    text = (
        f"The call of {tool.name} is not permitted in this run: {why}. Do it another way, or say that it is impossible."
    )
    return _Admission(CallDecision.NOT_PERMITTED, text, why)


def _tool_error(error: BaseException) -> ToolFailedError | None:
    """Return the `ToolFailedError` that a tool raised, also if task groups wrapped it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, ToolFailedError) else None
