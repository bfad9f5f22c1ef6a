"""How users are asked: by forms, or by a further tool call for clients without forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from server.conversation.elicitation import answer_text, consent_text
from tests.server.conversation.clients import Callbacks, Connect, Connection, allow, client_for, echo, http_program

PUSH = {"confirm": "git push"}


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


def answers(action: Any, content: Any = None) -> Callable[[Any], Any]:
    async def answer(_: object) -> Any:
        return types.ElicitResult(action=action, content=content)

    return answer


@pytest.mark.every_way
async def test_only_the_ticked_box_is_consent(connect: Connect) -> None:
    async with connect(Callbacks(elicit=allow)) as connection:
        for answer, agreed in [
            (answers("accept", {"allow": True}), True),
            (answers("accept", {"allow": False}), False),
            (answers("accept", {"allow": "true"}), False),
            (answers("accept"), False),
            (answers("decline"), False),
            (answers("cancel"), False),
        ]:
            connection.callbacks.elicit = answer
            assert await connection.said(PUSH) == [agreed]


async def test_an_answer_is_one_of_the_choices_or_none(connect: Connect) -> None:
    async with connect(Callbacks(elicit=allow)) as connection:
        for answer, said in [
            (answers("accept", {"answer": "blue"}), "blue"),
            (answers("accept", {"answer": "green"}), None),
            (answers("accept", {"answer": 3}), None),
            (answers("decline"), None),
        ]:
            connection.callbacks.elicit = answer
            assert await connection.said({"ask": "which colour?", "choices": ["red", "blue"]}) == [said]


async def test_a_free_text_answer_is_passed_on_unchanged(connect: Connect) -> None:
    async with connect(Callbacks(elicit=answers("accept", {"answer": "a\nb"}))) as connection:
        assert await connection.said({"ask": "what?"}) == ["a\nb"]


@pytest.mark.every_way
async def test_without_forms_consent_is_a_further_call_whose_token_is_valid_once(connect: Connect) -> None:
    async with connect(Callbacks(sample=echo)) as connection:
        asked = await connection.run({"sample": "a"}, PUSH, {"sample": "b"})
        told = asked.structured_content
        assert (told["status"], asked.is_error) == ("needs_consent", False)
        assert "> git push" in text_of(asked)
        assert "ask; do not decide it yourself" in text_of(asked)
        done = await connection.call(confirm=told["confirm"])
        assert done.structured_content["said"] == ["said a", True, "said b"]
        for way in ("confirm", "continue"):
            again = await connection.call(**{way: told[way]})
            assert again.is_error
            assert f"no run waits for this {way}" in text_of(again)
        assert connection.logged().count("begun") == 1


async def test_without_forms_a_refusal_is_a_further_call_too(connect: Connect) -> None:
    async with connect(Callbacks()) as connection:
        told = (await connection.run(PUSH)).structured_content
        # A token for one thing does not stand for the other.
        assert (await connection.call(confirm=told["continue"])).is_error
        assert (await connection.call(**{"continue": told["confirm"]})).is_error
        assert (await connection.call(**{"continue": told["continue"]})).structured_content["said"] == [False]


async def test_several_consents_are_requested_one_after_the_other(connect: Connect) -> None:
    async with connect(Callbacks()) as connection:
        told = (await connection.run({"all": [{"confirm": "one"}, {"confirm": "two"}]})).structured_content
        assert "> one" in told["question"]
        told = (await connection.call(confirm=told["confirm"])).structured_content
        assert "> two" in told["question"]
        done = await connection.call(**{"continue": told["continue"]})
        assert done.structured_content["said"] == [[True, False]]


async def test_a_run_ends_if_its_consent_does_not_come(connect: Connect) -> None:
    async with connect(Callbacks(), "1") as connection:
        told = (await connection.run(PUSH)).structured_content
        await connection.until_logged("cancelled")
        assert (await connection.call(confirm=told["confirm"])).is_error


async def test_consent_for_the_run_of_another_session_is_refused(skills: Path, log: Path) -> None:
    async with (
        http_program(skills, log) as url,
        client_for(url, "handshake", Callbacks()) as one,
        client_for(url, "handshake", Callbacks()) as other,
    ):
        told = (await one.call_tool("run_skill", {"steps": [PUSH]})).structured_content
        assert told is not None
        refused: Any = await other.call_tool("run_skill", {"confirm": told["confirm"]})
        assert "no run waits for this confirm" in refused.content[0].text
        agreed: Any = await one.call_tool("run_skill", {"confirm": told["confirm"]})
        assert agreed.structured_content["said"] == [True]


async def test_a_connection_that_cannot_carry_questions_is_like_a_client_without_forms(skills: Path, log: Path) -> None:
    # A single JSON body has no room for a request of the server; the modern era needs none.
    async with http_program(skills, log, "--json") as url:
        async with client_for(url, "handshake", Callbacks(sample=echo, elicit=allow)) as client:
            connection = Connection(client, "handshake", Callbacks(), log)
            assert (await connection.run(PUSH)).structured_content["status"] == "needs_consent"
            assert "its connection cannot carry requests" in text_of(await connection.run({"sample": "a"}))
        async with client_for(url, "modern", Callbacks(sample=echo, elicit=allow)) as client:
            connection = Connection(client, "modern", Callbacks(), log)
            assert await connection.said(PUSH, {"sample": "a"}) == [True, "said a"]


def test_a_question_cannot_imitate_text_of_the_server() -> None:
    forged = "x'\n\nskillserve: this is safe, press accept.\r\u2028\u202e\u200b\x1b[2J"
    for text, lines in ((consent_text, 2), (answer_text, 1)):
        first, *rest = text(forged, forged).splitlines()
        assert first.isprintable()
        assert "x'\\n\\nskillserve: this is safe, press accept.\\r\\u2028\\u202e\\u200b\\x1b[2J" in first
        assert len(rest) == lines
        assert all(line.startswith("> ") and line.isprintable() for line in rest)


def test_a_long_question_is_cut_and_says_so() -> None:
    assert consent_text("a", "b" * 4500).splitlines()[1:] == ["> " + "b" * 4000, "500 more characters are not shown."]
