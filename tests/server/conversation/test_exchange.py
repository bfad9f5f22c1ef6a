"""Questions to the client during a tool call, in both eras and over both transports."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.server.conversation.clients import Callbacks, Connect, Connection, allow, echo, says

pytestmark = pytest.mark.every_way

TWELVE = [{"sample": str(number)} for number in range(12)]


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def test_the_clients_model_and_its_user_answer_in_the_middle_of_a_call(connect: Connect) -> None:
    async with connect(Callbacks(sample=echo, elicit=allow)) as connection:
        assert await connection.said({"sample": "a"}, {"confirm": "push?"}, {"sample": "b"}) == [
            "said a",
            True,
            "said b",
        ]
        assert [what for what in connection.callbacks.asked if what == "sample"] == ["sample", "sample"]


async def test_parallel_questions_do_not_wait_for_each_other(connect: Connect) -> None:
    both = anyio.Event()

    async def together(params: types.CreateMessageRequestParams) -> Any:
        if len(connection.callbacks.asked) == 2:
            both.set()
        with anyio.fail_after(10):
            await both.wait()
        return await echo(params)

    async with connect(Callbacks(sample=together)) as connection:
        assert await connection.said({"all": [{"sample": "a"}, {"sample": "b"}]}) == [["said a", "said b"]]


async def test_a_call_with_many_questions_is_finished_by_a_further_call(connect: Connect) -> None:
    async with connect(Callbacks(sample=echo)) as connection:
        result = await connection.run(*TWELVE)
        if connection.era == "modern":
            assert result.structured_content["status"] == "not_finished"
            assert '"continue"' in text_of(result)
            result = await connection.call(**{"continue": result.structured_content["continue"]})
        assert result.structured_content["said"] == [f"said {number}" for number in range(12)]
        assert connection.logged().count("begun") == 1
        assert len(connection.callbacks.asked) == 12


async def test_two_parallel_runs_in_one_session_get_their_own_answers(connect: Connect) -> None:
    said: dict[str, Any] = {}

    async def run(name: str) -> None:
        said[name] = await connection.said({"sample": f"{name}1"}, {"sample": f"{name}2"})

    async with connect(Callbacks(sample=echo)) as connection, anyio.create_task_group() as tasks:
        for name in "ab":
            tasks.start_soon(run, name)
    assert said == {name: [f"said {name}1", f"said {name}2"] for name in "ab"}


async def test_a_client_receives_the_progress_it_asked_for_in_order(connect: Connect) -> None:
    told: list[Any] = []
    all_told = anyio.Event()

    async def note(*progress: Any) -> None:
        told.append(progress)
        if len(told) == 3:
            all_told.set()

    async with connect(Callbacks(sample=echo)) as connection:
        steps = ({"progress": 1}, {"progress": 2, "total": 3}, {"sample": "a"}, {"progress": 3, "total": 3})
        await connection.run(*steps, progress_callback=note)
        await connection.run(*steps)
        with anyio.fail_after(10):
            await all_told.wait()
    assert told == [(1, None, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_a_client_that_declares_nothing_is_asked_nothing(connect: Connect) -> None:
    async with connect(Callbacks()) as connection:
        result = await connection.run({"sample": "a"})
        assert result.is_error
        assert "the client was asked for an answer of its model: it did not declare this capability" in text_of(result)
        assert await connection.said({"ask": "which?"}, {"confirm": "push?", "by_call": False}) == [None, None]


async def test_a_failure_of_the_work_is_the_result_of_the_call(connect: Connect) -> None:
    async with connect(Callbacks(sample=echo)) as connection:
        result = await connection.run({"sample": "a"}, {"fail": "no such thing"})
        assert (result.is_error, text_of(result)) == (True, "no such thing")


async def refuse(_: object) -> Any:
    return types.ErrorData(code=-1, message="User rejected\nsampling " + "x" * 1000)


async def test_a_refusal_is_reported_with_the_clients_message_shortened(connect: Connect) -> None:
    async with connect(Callbacks(sample=refuse), "1") as connection:
        if connection.era == "modern":
            # Its SDK gives the call up, and does not come back for the run.
            with pytest.raises(MCPError, match="User rejected"):
                await connection.run({"sample": "a"})
            await connection.until_logged("cancelled")
            return
        text = text_of(await connection.run({"sample": "a"}))
        assert "it refused (-1): User rejected\\nsampling xxx" in text
        assert len(text) < 400


async def test_an_answer_after_the_deadline_is_ignored(connect: Connect) -> None:
    waiting = anyio.Event()

    async def late(params: types.CreateMessageRequestParams) -> Any:
        if len(connection.callbacks.asked) == 1:
            await waiting.wait()
        return await echo(params)

    async with connect(Callbacks(sample=late), "0.5") as connection:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_expect_no_answer, connection)
            await connection.until_logged("begun")
            if connection.era == "modern":
                await connection.until_logged("cancelled")
                waiting.set()
        assert await connection.said({"sample": "again"}) == ["said again"]


async def _expect_no_answer(connection: Connection) -> None:
    result = await connection.run({"sample": "a"})
    assert result.is_error
    assert ("has ended" if connection.era == "modern" else "no answer within 0.5 seconds") in text_of(result)


async def test_an_answer_to_another_kind_of_question_cannot_be_used(connect: Connect) -> None:
    async def wrong(_: object) -> Any:
        return says("yes") if connection.era == "handshake" else None

    async with connect(Callbacks(sample=echo, elicit=wrong)) as connection:
        if connection.era == "handshake":
            assert await connection.said({"confirm": "push?"}) == [None]
            return
        steps = [{"sample": "a"}]
        asked = await connection.request(steps)
        (key,) = asked.input_requests
        result = await connection.request(steps, {key: types.ElicitResult(action="accept")}, asked.request_state)
        assert "its answer cannot be used" in text_of(result)
