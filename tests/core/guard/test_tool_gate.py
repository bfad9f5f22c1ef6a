from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from skills_core.errors import ToolFailedError
from skills_core.format.yaml12 import JsonObject
from skills_core.guard.guard import GuardRule, Verdict
from skills_core.guard.tool import CallContext, CallDecision

DENY = GuardRule("rm -rf", Verdict.DENY)
ASK = GuardRule("push", Verdict.CONFIRM)
PATH: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["path"],
    "additionalProperties": False,
}


async def test_an_admitted_call_is_executed_with_its_own_key(make_tool: Any, make_gate: Any) -> None:
    call = await make_gate(make_tool()).call("echo", {"a": 1}, 7)
    assert (call.decision, call.text, call.number) == (CallDecision.DONE, "r1/7 {'a': 1}", 7)
    assert not call.confirmed


async def test_an_unknown_tool_is_answered_with_what_may_have_been_meant(make_tool: Any, make_gate: Any) -> None:
    call = await make_gate(make_tool("read_file")).call("read_files", {}, 1)
    assert call.decision is CallDecision.UNKNOWN_TOOL
    assert "Did you mean 'read_file'?" in call.text


async def test_a_tool_that_is_not_permitted_is_neither_offered_nor_executed(make_tool: Any, make_gate: Any) -> None:
    gate = make_gate(make_tool("a"), make_tool("b"), allowed=["b"])
    assert [tool.name for tool in gate.offered] == ["b"]
    assert (await gate.call("a", {}, 1)).decision is CallDecision.NOT_PERMITTED
    assert (await gate.call("b", {}, 2)).decision is CallDecision.DONE


async def test_all_errors_of_the_arguments_are_reported_with_their_locations(make_tool: Any, make_gate: Any) -> None:
    call = await make_gate(make_tool(parameters=PATH)).call("echo", {"path": 1, "depth": "x", "y": 0}, 1)
    assert call.decision is CallDecision.INVALID_ARGUMENTS
    assert "arguments.path: 1 is not of type 'string'" in call.text
    assert "arguments.depth: 'x' is not of type 'integer'" in call.text
    assert "arguments: unknown: 'y'; expected 'path', 'depth'" in call.text


@pytest.mark.parametrize("arguments", [None, 3, "text", [], [1], True])
async def test_arguments_that_are_not_an_object_are_invalid(arguments: Any, make_tool: Any, make_gate: Any) -> None:
    call = await make_gate(make_tool()).call("echo", arguments, 1)
    assert (call.decision, call.arguments) == (CallDecision.INVALID_ARGUMENTS, {})
    assert "object" in call.text


async def test_a_call_that_matches_a_danger_pattern_is_denied(make_tool: Any, make_gate: Any) -> None:
    call = await make_gate(make_tool(), rules=[DENY]).call("echo", {"command": "rm -rf /"}, 1)
    assert call.decision is CallDecision.DENIED
    assert "calls dangerous" in call.text


async def test_the_user_is_asked_if_a_confirm_pattern_matches(make_tool: Any, make_gate: Any, person: Any) -> None:
    agrees, declines, silent = person(agrees=True), person(agrees=False), person()
    arguments = {"command": "git push"}
    call = await make_gate(make_tool(), rules=[ASK], user=agrees).call("echo", arguments, 1)
    assert (call.decision, call.confirmed) == (CallDecision.DONE, True)
    assert '{"command":"git push"}' in agrees.asked[0]
    call = await make_gate(make_tool(), rules=[ASK], user=declines).call("echo", arguments, 1)
    assert (call.decision, call.confirmed) == (CallDecision.DECLINED, False)
    call = await make_gate(make_tool(), rules=[ASK], user=silent).call("echo", arguments, 1)
    assert call.decision is CallDecision.NOBODY_TO_ASK
    assert (await make_gate(make_tool(), rules=[ASK], user=silent).call("echo", {}, 1)).decision is CallDecision.DONE


async def test_a_user_who_cannot_be_reached_has_not_agreed(make_tool: Any, make_gate: Any) -> None:
    class Unreachable:
        async def confirm(self, question: str) -> bool | None:
            raise ConnectionError(question)

        async def ask(self, question: str, choices: Any = ()) -> str | None:
            raise ConnectionError(question, choices)

    call = await make_gate(make_tool(), rules=[ASK], user=Unreachable()).call("echo", {"x": "push"}, 1)
    assert call.decision is CallDecision.NOBODY_TO_ASK


async def test_a_tool_that_takes_too_long_is_cancelled(make_tool: Any, make_gate: Any) -> None:
    ended = []

    async def hang(arguments: JsonObject, context: CallContext) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append((arguments, context.key))
        return ""

    call = await make_gate(make_tool(perform=hang), seconds=0.01).call("echo", {}, 1)
    assert call.decision is CallDecision.TIMED_OUT
    assert "longer than 0.01 seconds" in call.text
    assert ended == [({}, "r1/1")]


@pytest.mark.parametrize("wrapped", [False, True])
async def test_the_text_of_a_tool_failed_error_reaches_the_model(
    make_tool: Any, make_gate: Any, failing: Any, *, wrapped: bool
) -> None:
    error: Exception = ToolFailedError("there is no such file")
    work = failing(ExceptionGroup("of a task group", [error]) if wrapped else error)
    call = await make_gate(make_tool(perform=work)).call("echo", {}, 1)
    assert (call.decision, call.text) == (CallDecision.FAILED, "there is no such file")


@pytest.mark.parametrize(
    "error", [ValueError("token=abc"), TimeoutError(), RecursionError(), ExceptionGroup("g", [KeyError()])]
)
async def test_an_unexpected_error_of_a_tool_is_reported_without_its_text(
    error: Exception, make_tool: Any, make_gate: Any, failing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    call = await make_gate(make_tool(perform=failing(error))).call("echo", {}, 1)
    assert call.decision is CallDecision.FAILED
    assert call.text == "The tool echo failed with an internal error."
    assert "token" not in caplog.text
    assert type(error).__name__ in caplog.text


async def test_cancellation_of_the_run_passes_through_and_ends_the_tool(make_tool: Any, make_gate: Any) -> None:
    started, ended = anyio.Event(), anyio.Event()

    async def hang(arguments: JsonObject, context: CallContext) -> str:
        del arguments, context
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return ""

    gate, calls = make_gate(make_tool(perform=hang)), []

    async def run() -> None:
        calls.append(await gate.call("echo", {}, 1))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await started.wait()
        tasks.cancel_scope.cancel()
    assert ended.is_set()
    assert calls == []


async def test_a_reply_that_is_too_long_is_cut_with_a_note_of_how_much_is_missing(
    make_tool: Any, make_gate: Any, saying: Callable[[str], Any]
) -> None:
    gate = make_gate(make_tool(perform=saying("x" * 25)), characters=10)
    assert (await gate.call("echo", {}, 1)).text == "xxxxxxxxxx\n[15 more characters are not shown]"


async def test_a_lone_surrogate_never_reaches_the_model(
    make_tool: Any, make_gate: Any, saying: Callable[[str], Any]
) -> None:
    assert (await make_gate(make_tool(perform=saying("a\ud800b"))).call("echo", {}, 1)).text == "a\ufffdb"


async def test_every_decision_is_logged_with_the_digest(
    make_tool: Any, make_gate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gate = make_gate(make_tool(), make_tool("b"), allowed=["echo"], rules=[DENY])
    await gate.call("echo", {}, 1)
    await gate.call("b", {}, 2)
    await gate.call("echo", {"x": "rm -rf /"}, 3)
    await gate.call("no\nsuch", {}, 4)
    assert [record.getMessage() for record in caplog.records] == [
        "tool call r1/1: done echo of workspace, skill sha256:abc",
        "tool call r1/2: not_permitted b of workspace, skill sha256:abc",
        "tool call r1/3: denied echo of workspace, skill sha256:abc",
        "guard: deny echo by the configuration ",
        "tool call r1/4: unknown_tool no\\nsuch of nowhere, skill sha256:abc",
    ]


async def test_a_tool_whose_schema_cannot_be_used_and_a_second_of_one_name_are_left_out(
    make_tool: Any, make_gate: Any, saying: Any
) -> None:
    gate = make_gate(make_tool("bad", {"type": 3}), make_tool(), make_tool(perform=saying("second")))
    assert [tool.name for tool in gate.offered] == ["echo"]
    assert (await gate.call("bad", {}, 1)).decision is CallDecision.UNKNOWN_TOOL
    assert (await gate.call("echo", {}, 1)).text == "r1/1 {}"
