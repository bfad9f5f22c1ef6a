"""What a client of the modern era holds between two rounds, and what it can and cannot do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from tests.server.exchange.talking import (
    Converse,
    Peer,
    Talk,
    allow,
    client_for,
    echo,
    http_program,
    says,
    until_noted,
    user_of,
)
from tests.server.sessions import Era

STEPS = [{"sample": "a"}, {"sample": "b"}]


@pytest.fixture(params=["modern"])
def era(request: pytest.FixtureRequest) -> Era:
    chosen: Era = request.param
    return chosen


def answers_to(asked: Any, text: str = "yes") -> dict[str, Any]:
    return {key: says(text) for key in asked.input_requests}


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def test_questions_of_the_same_time_share_a_round(converse: Converse) -> None:
    steps = [{"all": [{"sample": "a"}, {"confirm": "b"}, {"sample": "c"}]}]
    async with converse(Peer(sample=echo, elicit=allow)) as talk:
        asked = await talk.leg(steps)
        methods = sorted(request.method for request in asked.input_requests.values())
        assert methods == ["elicitation/create", "sampling/createMessage", "sampling/createMessage"]
        first, *others = [key for key, each in asked.input_requests.items() if each.method.startswith("sampling")]
        # Who answers one question is asked the others again.
        again = await talk.leg(steps, {first: says("yes"), "q99": says("nobody asked")}, asked.request_state)
        assert {*again.input_requests} == {*asked.input_requests} - {first}
        assert others


async def test_a_state_is_good_for_its_own_call_alone(converse: Converse) -> None:
    async with converse(Peer(sample=echo)) as talk:
        asked = await talk.leg(STEPS)
        sealed = asked.request_state
        for steps, state in [
            ([{"sample": "other"}], sealed),
            (STEPS, sealed[:-4] + "AAAA"),
            (STEPS, "v1.nonsense"),
            (STEPS, ""),
        ]:
            with pytest.raises(MCPError, match="Invalid or expired requestState: it belongs to another call"):
                await talk.leg(steps, answers_to(asked), state)
        assert "a" not in sealed.split(".")[0]
        assert (await talk.leg(STEPS, answers_to(asked), sealed)).input_requests


async def test_answers_that_are_given_twice_count_once(converse: Converse) -> None:
    async with converse(Peer(sample=echo)) as talk:
        first = await talk.leg(STEPS)
        second = await talk.leg(STEPS, answers_to(first, "one"), first.request_state)
        # As where the answer was lost on its way: the round that is open is told again, and nothing is done twice.
        lost = await talk.leg(STEPS, answers_to(first, "two"), first.request_state)
        assert lost.input_requests == second.input_requests
        done = await talk.leg(STEPS, answers_to(second), lost.request_state)
        assert done.structured_content["said"] == ["one", "yes"]
        over = await talk.leg(STEPS, answers_to(second), second.request_state)
        assert over.is_error
        assert "has ended, or is not on this server" in text_of(over)
        assert talk.noted() == ["begun", "sample: one", "sample: yes", "done"]


async def test_a_round_that_is_long_over_is_refused(converse: Converse) -> None:
    steps = [*STEPS, {"sample": "c"}]
    async with converse(Peer(sample=echo)) as talk:
        first = await talk.leg(steps)
        second = await talk.leg(steps, answers_to(first), first.request_state)
        third = await talk.leg(steps, answers_to(second), second.request_state)
        assert "was used before" in text_of(await talk.leg(steps, answers_to(first), first.request_state))
        assert not (await talk.leg(steps, answers_to(third), third.request_state)).is_error


async def test_two_requests_with_the_same_state_at_once_are_not_both_served(converse: Converse) -> None:
    steps: list[dict[str, Any]] = [{"sample": "a"}, {"sleep": 0.5}, {"sample": "b"}]
    got: list[Any] = []

    async def go_on(talk: Talk, asked: Any) -> None:
        got.append(await talk.leg(steps, answers_to(asked), asked.request_state))

    async with converse(Peer(sample=echo)) as talk:
        asked = await talk.leg(steps)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go_on, talk, asked)
            tasks.start_soon(go_on, talk, asked)
        refused, served = sorted(got, key=lambda each: hasattr(each, "input_requests"))
        assert "another request with this requestState" in text_of(refused)
        assert served.input_requests


async def test_nobody_who_comes_back_too_late_goes_on(converse: Converse) -> None:
    async with converse(Peer(sample=echo), "1") as talk:
        asked = await talk.leg(STEPS)
        await talk.until_noted("cancelled")
        late = await talk.leg(STEPS, answers_to(asked), asked.request_state)
        assert "has ended, or is not on this server" in text_of(late)


async def test_work_that_is_over_while_the_client_is_asked_is_told_to_who_comes_back(converse: Converse) -> None:
    steps: list[dict[str, Any]] = [{"race": [{"sample": "a"}, {"sleep": 0.3}]}]
    async with converse(Peer(sample=echo)) as talk:
        asked = await talk.leg(steps)
        await talk.until_noted("done")
        told = await talk.leg(steps, answers_to(asked), asked.request_state)
        assert told.structured_content["said"] == [None]


async def test_garbage_for_answers_is_refused_and_the_round_stays_open(skills: Path, log: Path) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
    }
    headers = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "run_skill",
        "Accept": "application/json, text/event-stream",
    }
    call = {"name": "run_skill", "arguments": {"steps": STEPS[:1]}, "_meta": meta}
    async with http_program(skills, log) as url, httpx2.AsyncClient(headers=headers, timeout=20) as client:

        async def post(**more: Any) -> Any:
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**call, **more}}
            return (await client.post(url, json=message)).json()

        asked = (await post())["result"]
        (key,) = asked["inputRequests"]
        bad: list[Any] = ["nonsense", 7, {key: "nonsense"}, {key: {"role": "assistant"}}, {key: {"content": []}}, [key]]
        for garbage in bad:
            refused = await post(inputResponses=garbage, requestState=asked["requestState"])
            assert refused["error"]["code"] == INVALID_PARAMS
        good = {key: {"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "m"}}
        done = (await post(inputResponses=good, requestState=asked["requestState"]))["result"]
        assert done["structuredContent"]["said"] == ["yes"]


async def test_a_state_of_another_process_is_refused_with_what_to_do(skills: Path, log: Path, tmp_path: Path) -> None:
    peer = Peer(sample=echo)
    async with (
        http_program(skills, log) as one,
        http_program(skills, tmp_path / "other") as other,
        client_for(one, "modern", peer) as here,
        client_for(other, "modern", peer) as there,
    ):
        asked = await Talk(here, "modern", peer, log).leg(STEPS)
        with pytest.raises(MCPError, match=r"another process of this server.*Start the call again"):
            await Talk(there, "modern", peer, log).leg(STEPS, answers_to(asked), asked.request_state)


async def test_another_user_cannot_go_on_with_a_run(skills: Path, log: Path) -> None:
    peer = Peer(sample=echo)
    async with (
        http_program(skills, log, "--auth") as url,
        user_of(url, "alice", peer) as alice,
        user_of(url, "bob", peer) as bob,
    ):
        hers, his = Talk(alice, "modern", peer, log), Talk(bob, "modern", peer, log)
        asked = await hers.leg(STEPS)
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await his.leg(STEPS, answers_to(asked), asked.request_state)
        waits = await hers.call(steps=[{"confirm": "push?"}])
        for way in ("confirm", "continue"):
            refused = await his.call(**{way: waits.structured_content[way]})
            assert "no run waits for this" in text_of(refused)
        agreed = await hers.call(confirm=waits.structured_content["confirm"])
        assert agreed.structured_content["said"] == [True]
        await until_noted(log, "done")
