"""What a tool can ask its client in the middle of a call, in both eras and over both transports."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.server.exchange.talking import Converse, Peer, Talk, allow, echo, says

pytestmark = pytest.mark.every_way

TWELVE = [{"sample": str(number)} for number in range(12)]


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def test_the_clients_model_and_its_user_answer_in_the_middle_of_a_call(converse: Converse) -> None:
    async with converse(Peer(sample=echo, elicit=allow)) as talk:
        assert await talk.said({"sample": "a"}, {"confirm": "push?"}, {"sample": "b"}) == ["said a", True, "said b"]
        assert [what for what in talk.peer.asked if what == "sample"] == ["sample", "sample"]


async def test_questions_that_are_asked_at_the_same_time_do_not_wait_for_each_other(converse: Converse) -> None:
    both = anyio.Event()

    async def together(params: types.CreateMessageRequestParams) -> Any:
        if len(talk.peer.asked) == 2:
            both.set()
        with anyio.fail_after(10):
            await both.wait()
        return await echo(params)

    async with converse(Peer(sample=together)) as talk:
        assert await talk.said({"all": [{"sample": "a"}, {"sample": "b"}]}) == [["said a", "said b"]]


async def test_a_call_of_many_rounds_is_finished_by_calling_again(converse: Converse) -> None:
    async with converse(Peer(sample=echo)) as talk:
        result = await talk.run(*TWELVE)
        if talk.era == "modern":
            assert result.structured_content["status"] == "not_finished"
            assert '"continue"' in text_of(result)
            result = await talk.call(**{"continue": result.structured_content["continue"]})
        assert result.structured_content["said"] == [f"said {number}" for number in range(12)]
        assert talk.noted().count("begun") == 1
        assert len(talk.peer.asked) == 12


async def test_two_runs_at_once_in_one_session_get_their_own_answers(converse: Converse) -> None:
    said: dict[str, Any] = {}

    async def run(name: str) -> None:
        said[name] = await talk.said({"sample": f"{name}1"}, {"sample": f"{name}2"})

    async with converse(Peer(sample=echo)) as talk, anyio.create_task_group() as tasks:
        for name in "ab":
            tasks.start_soon(run, name)
    assert said == {name: [f"said {name}1", f"said {name}2"] for name in "ab"}


async def test_a_client_that_asks_for_progress_is_told_of_it_in_order(converse: Converse) -> None:
    told: list[Any] = []
    all_told = anyio.Event()

    async def note(*progress: Any) -> None:
        told.append(progress)
        if len(told) == 3:
            all_told.set()

    async with converse(Peer(sample=echo)) as talk:
        steps = ({"progress": 1}, {"progress": 2, "total": 3}, {"sample": "a"}, {"progress": 3, "total": 3})
        await talk.run(*steps, progress_callback=note)
        await talk.run(*steps)
        with anyio.fail_after(10):
            await all_told.wait()
    assert told == [(1, None, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_a_client_that_declares_nothing_is_asked_nothing(converse: Converse) -> None:
    async with converse(Peer()) as talk:
        result = await talk.run({"sample": "a"})
        assert result.is_error
        assert "the client was asked for an answer of its model: it did not declare this capability" in text_of(result)
        assert await talk.said({"ask": "which?"}, {"confirm": "push?", "by_call": False}) == [None, None]


async def test_work_that_fails_is_answered_with_its_error(converse: Converse) -> None:
    async with converse(Peer(sample=echo)) as talk:
        result = await talk.run({"sample": "a"}, {"fail": "no such thing"})
        assert (result.is_error, text_of(result)) == (True, "no such thing")


async def refuse(_: object) -> Any:
    return types.ErrorData(code=-1, message="User rejected\nsampling " + "x" * 1000)


async def test_a_client_that_refuses_is_told_of_with_its_words_cut(converse: Converse) -> None:
    async with converse(Peer(sample=refuse), "1") as talk:
        if talk.era == "modern":
            # Its SDK gives the call up by itself, and nobody comes back for the run.
            with pytest.raises(MCPError, match="User rejected"):
                await talk.run({"sample": "a"})
            await talk.until_noted("cancelled")
            return
        text = text_of(await talk.run({"sample": "a"}))
        assert "it refused (-1): User rejected\\nsampling xxx" in text
        assert len(text) < 400


async def test_an_answer_after_the_deadline_is_too_late_and_hurts_nobody(converse: Converse) -> None:
    waiting = anyio.Event()

    async def late(params: types.CreateMessageRequestParams) -> Any:
        if len(talk.peer.asked) == 1:
            await waiting.wait()
        return await echo(params)

    async with converse(Peer(sample=late), "0.5") as talk:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_expect_no_answer, talk)
            await talk.until_noted("begun")
            if talk.era == "modern":
                await talk.until_noted("cancelled")
                waiting.set()
        assert await talk.said({"sample": "again"}) == ["said again"]


async def _expect_no_answer(talk: Talk) -> None:
    result = await talk.run({"sample": "a"})
    assert result.is_error
    assert ("has ended" if talk.era == "modern" else "no answer within 0.5 seconds") in text_of(result)


async def test_an_answer_of_another_kind_is_no_answer(converse: Converse) -> None:
    async def wrong(_: object) -> Any:
        return says("yes") if talk.era == "handshake" else None

    async with converse(Peer(sample=echo, elicit=wrong)) as talk:
        if talk.era == "handshake":
            assert await talk.said({"confirm": "push?"}) == [None]
            return
        steps = [{"sample": "a"}]
        asked = await talk.leg(steps)
        (key,) = asked.input_requests
        result = await talk.leg(steps, {key: types.ElicitResult(action="accept")}, asked.request_state)
        assert "its answer cannot be used" in text_of(result)
