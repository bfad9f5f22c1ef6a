"""The `requestState` of the modern era: which requests can resume a call, and which are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from tests.server.conversation.clients import (
    Callbacks,
    Connect,
    Connection,
    allow,
    client_for,
    echo,
    http_program,
    says,
    until_logged,
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


async def test_parallel_questions_share_a_response(connect: Connect) -> None:
    steps = [{"all": [{"sample": "a"}, {"confirm": "b"}, {"sample": "c"}]}]
    async with connect(Callbacks(sample=echo, elicit=allow)) as connection:
        asked = await connection.request(steps)
        methods = sorted(request.method for request in asked.input_requests.values())
        assert methods == ["elicitation/create", "sampling/createMessage", "sampling/createMessage"]
        first, *others = [key for key, each in asked.input_requests.items() if each.method.startswith("sampling")]
        # A client that answers one question is asked the others again.
        again = await connection.request(steps, {first: says("yes"), "q99": says("not asked")}, asked.request_state)
        assert {*again.input_requests} == {*asked.input_requests} - {first}
        assert others


async def test_a_state_is_valid_only_for_its_own_call(connect: Connect) -> None:
    async with connect(Callbacks(sample=echo)) as connection:
        asked = await connection.request(STEPS)
        sealed = asked.request_state
        for steps, state in [
            ([{"sample": "other"}], sealed),
            (STEPS, sealed[:-4] + "AAAA"),
            (STEPS, "v1.nonsense"),
            (STEPS, ""),
        ]:
            with pytest.raises(MCPError, match="Invalid or expired requestState: it belongs to another call"):
                await connection.request(steps, answers_to(asked), state)
        assert "a" not in sealed.split(".")[0]
        assert (await connection.request(STEPS, answers_to(asked), sealed)).input_requests


async def test_repeated_answers_count_once(connect: Connect) -> None:
    async with connect(Callbacks(sample=echo)) as connection:
        first = await connection.request(STEPS)
        second = await connection.request(STEPS, answers_to(first, "one"), first.request_state)
        # As if the response was lost: the open questions are repeated, and no step runs twice.
        lost = await connection.request(STEPS, answers_to(first, "two"), first.request_state)
        assert lost.input_requests == second.input_requests
        done = await connection.request(STEPS, answers_to(second), lost.request_state)
        assert done.structured_content["said"] == ["one", "yes"]
        over = await connection.request(STEPS, answers_to(second), second.request_state)
        assert over.is_error
        assert "has ended, or is not on this server" in text_of(over)
        assert connection.logged() == ["begun", "sample: one", "sample: yes", "done"]


async def test_an_outdated_state_is_refused(connect: Connect) -> None:
    steps = [*STEPS, {"sample": "c"}]
    async with connect(Callbacks(sample=echo)) as connection:
        first = await connection.request(steps)
        second = await connection.request(steps, answers_to(first), first.request_state)
        third = await connection.request(steps, answers_to(second), second.request_state)
        assert "was used before" in text_of(await connection.request(steps, answers_to(first), first.request_state))
        assert not (await connection.request(steps, answers_to(third), third.request_state)).is_error


async def test_of_two_simultaneous_requests_with_one_state_one_is_refused(connect: Connect) -> None:
    steps: list[dict[str, Any]] = [{"sample": "a"}, {"sleep": 0.5}, {"sample": "b"}]
    got: list[Any] = []

    async def go_on(connection: Connection, asked: Any) -> None:
        got.append(await connection.request(steps, answers_to(asked), asked.request_state))

    async with connect(Callbacks(sample=echo)) as connection:
        asked = await connection.request(steps)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go_on, connection, asked)
            tasks.start_soon(go_on, connection, asked)
        refused, served = sorted(got, key=lambda each: hasattr(each, "input_requests"))
        assert "another request with this requestState" in text_of(refused)
        assert served.input_requests


async def test_a_client_that_comes_back_too_late_is_refused(connect: Connect) -> None:
    async with connect(Callbacks(sample=echo), "1") as connection:
        asked = await connection.request(STEPS)
        await connection.until_logged("cancelled")
        late = await connection.request(STEPS, answers_to(asked), asked.request_state)
        assert "has ended, or is not on this server" in text_of(late)


async def test_work_that_finishes_while_the_client_is_asked_is_delivered_to_its_next_request(connect: Connect) -> None:
    steps: list[dict[str, Any]] = [{"race": [{"sample": "a"}, {"sleep": 0.3}]}]
    async with connect(Callbacks(sample=echo)) as connection:
        asked = await connection.request(steps)
        await connection.until_logged("done")
        told = await connection.request(steps, answers_to(asked), asked.request_state)
        assert told.structured_content["said"] == [None]


async def test_malformed_answers_are_refused_and_the_questions_stay_open(skills: Path, log: Path) -> None:
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
    callbacks = Callbacks(sample=echo)
    async with (
        http_program(skills, log) as one,
        http_program(skills, tmp_path / "other") as other,
        client_for(one, "modern", callbacks) as here,
        client_for(other, "modern", callbacks) as there,
    ):
        asked = await Connection(here, "modern", callbacks, log).request(STEPS)
        with pytest.raises(MCPError, match=r"another process of this server.*Start the call again"):
            await Connection(there, "modern", callbacks, log).request(STEPS, answers_to(asked), asked.request_state)


async def test_another_user_cannot_resume_a_run(skills: Path, log: Path) -> None:
    callbacks = Callbacks(sample=echo)
    async with (
        http_program(skills, log, "--auth") as url,
        user_of(url, "alice", callbacks) as alice,
        user_of(url, "bob", callbacks) as bob,
    ):
        hers, his = Connection(alice, "modern", callbacks, log), Connection(bob, "modern", callbacks, log)
        asked = await hers.request(STEPS)
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await his.request(STEPS, answers_to(asked), asked.request_state)
        waits = await hers.call(steps=[{"confirm": "push?"}])
        for way in ("confirm", "continue"):
            refused = await his.call(**{way: waits.structured_content[way]})
            assert "no run waits for this" in text_of(refused)
        agreed = await hers.call(confirm=waits.structured_content["confirm"])
        assert agreed.structured_content["said"] == [True]
        await until_logged(log, "done")
