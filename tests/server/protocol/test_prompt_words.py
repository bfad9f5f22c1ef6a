"""What users type after a slash command reaches the model, as each client hands it over.

The clients are played here by their rules; `make slash` types into the real ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.conftest import MakeSkill
from tests.server.sessions import Connect

CLAUDE, GEMINI, QWEN, OPENCODE = "claude-code", "gemini-cli-mcp-client", "qwen-cli-mcp-client-skills", "opencode"
"""What the clients call themselves."""

REQUEST = "<user_request>\nstaging v2\n</user_request>"


def words_one_by_one(listed: list[Any], words: str) -> dict[str, str]:
    """Claude Code: each argument gets one word, and the rest is dropped."""
    return dict(zip((each.name for each in listed), words.split(), strict=False))


def words_for_the_required(listed: list[Any], words: str) -> dict[str, str]:
    """Gemini CLI: the only required argument gets all words, and optional ones get none."""
    required = [each.name for each in listed if each.required]
    return {required[0]: words} if len(required) == 1 else {}


def words_for_the_only(listed: list[Any], words: str) -> dict[str, str]:
    """Qwen Code: the only argument gets all words, several get one each."""
    return {listed[0].name: words} if len(listed) == 1 else words_one_by_one(listed, words)


def places(listed: list[Any], _words: str) -> dict[str, str]:
    """Opencode: it fills the arguments in itself."""
    return {each.name: f"${number}" for number, each in enumerate(listed, 1)}


def filled_by_opencode(text: str, words: str) -> str:
    """Fill as opencode does: it counts from 1, and the last placeholder takes the rest."""
    split = words.split()
    last = max((int(each) for each in re.findall(r"\$(\d+)", text)), default=0)

    def word(match: re.Match[str]) -> str:
        at = int(match[1])
        return " ".join(split[at - 1 :]) if at == last else "".join(split[at - 1 : at])

    return re.sub(r"\$(\d+)", word, text).replace("$ARGUMENTS", words)


async def typed(session: Any, name: str, words: str, hand_over: Callable[..., Mapping[str, str]]) -> str:
    """Return the text of a prompt after a user typed `/name words` in a client."""
    (prompt,) = (each for each in (await session.client.list_prompts()).prompts if each.name == name)
    (message,) = (await session.client.get_prompt(name, dict(hand_over(prompt.arguments, words)))).messages
    text: str = message.content.text
    return filled_by_opencode(text, words) if hand_over is places else text


BODY = "Deploy to [$ARGUMENTS], which is [$1] on [$0]."
FILLED = "Deploy to [staging v2], which is [v2] on [staging]."

HANDING_ALL = pytest.mark.parametrize(
    ("client", "hand_over"), [(GEMINI, words_for_the_required), (QWEN, words_for_the_only), (OPENCODE, places)]
)


@HANDING_ALL
async def test_all_words_stand_in_the_body_and_after_it(
    connect: Connect, make_skill: MakeSkill, client: str, hand_over: Callable[..., Mapping[str, str]]
) -> None:
    make_skill("deploy", body=BODY)
    async with connect(client_name=client) as session:
        text = await typed(session, "deploy", "staging v2", hand_over)
        assert FILLED in text
        assert text.endswith(REQUEST)


@HANDING_ALL
async def test_all_words_arrive_at_a_skill_that_uses_none(
    connect: Connect, make_skill: MakeSkill, client: str, hand_over: Callable[..., Mapping[str, str]]
) -> None:
    make_skill("deploy", body="Deploy.")
    async with connect(client_name=client) as session:
        assert (await typed(session, "deploy", "staging v2", hand_over)).endswith(REQUEST)


@HANDING_ALL
async def test_words_are_not_spread_over_the_parameters_of_a_body(
    connect: Connect, make_skill: MakeSkill, client: str, hand_over: Callable[..., Mapping[str, str]]
) -> None:
    make_skill("deploy", body="Deploy {{what}} to {{where}}.")
    async with connect(client_name=client) as session:
        assert (await typed(session, "deploy", "staging v2", hand_over)).endswith(REQUEST)


@pytest.mark.parametrize(
    ("words", "filled"),
    [
        ("staging v2", FILLED),
        ("staging", "Deploy to [staging], which is [$1] on [staging]."),
        ('"my app" v2', 'Deploy to ["my app" v2], which is [v2] on [my app].'),
    ],
)
async def test_words_given_one_by_one_are_put_together(
    connect: Connect, make_skill: MakeSkill, words: str, filled: str
) -> None:
    make_skill("deploy", body=BODY)
    async with connect(client_name=CLAUDE) as session:
        text = await typed(session, "deploy", words, words_one_by_one)
        assert filled in text
        assert text.endswith(f"<user_request>\n{words}\n</user_request>")


async def test_parameters_take_words_one_by_one_and_the_request_has_all(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("deploy", body="Deploy {{what}} to {{where}}.")
    async with connect(client_name=CLAUDE) as session:
        text = await typed(session, "deploy", "staging v2", words_one_by_one)
        assert "Deploy staging to v2." in text
        assert text.endswith(REQUEST)


async def test_where_words_may_be_missing_claude_code_is_told_where_all_stand(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("deploy", body=BODY)
    make_skill("plain", body="Deploy.")
    async with connect(client_name=CLAUDE) as session:
        text = await typed(session, "deploy", " ".join(map(str, range(10, 25))), words_one_by_one)
        assert BODY in text
        assert "all of it stands in <command-args> of this same message" in text
        assert "$ARGUMENTS stands for all of these words, $0 for word 1 of them, $1 for word 2 of them." in text
        assert "without a value" not in text
        plain = await typed(session, "plain", "staging v2", words_one_by_one)
        assert "<user_request>\nstaging\n</user_request>" in plain
        assert plain.endswith("and is what counts.")
        assert "command-args" not in await typed(session, "plain", "", words_one_by_one)


async def test_a_message_given_word_by_word_calls_the_skills_that_it_names(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("deploy", body=BODY)
    async with connect(client_name=CLAUDE) as session:
        assert FILLED in await typed(session, "with_skills", "/deploy staging v2", words_one_by_one)
        long = await typed(session, "with_skills", " ".join(["/deploy", *map(str, range(20))]), words_one_by_one)
        assert long.endswith("and is what counts.")


@HANDING_ALL
async def test_a_message_with_skills_keeps_its_words(
    connect: Connect, make_skill: MakeSkill, client: str, hand_over: Callable[..., Mapping[str, str]]
) -> None:
    make_skill("deploy", body=BODY)
    async with connect(client_name=client) as session:
        assert "staging v2" in await typed(session, "with_skills", "staging v2", hand_over)


async def test_arguments_for_single_words_are_listed_where_a_skill_has_a_place_for_them(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("deploy", body=BODY)
    make_skill("plain", body="Deploy.")
    async with connect(client_name=CLAUDE) as session:
        listed = {each.name: len(each.arguments) for each in (await session.client.list_prompts()).prompts}
        assert listed == {"deploy": 10, "plain": 1, "with_skills": 10}


async def test_nobody_else_is_told_of_claude_code(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("deploy", body=BODY)
    async with connect(client_name="nobody-knows-it") as session:
        (prompt,) = (each for each in (await session.client.list_prompts()).prompts if each.name == "deploy")
        assert [(each.name, each.required) for each in prompt.arguments] == [("arguments", False)]
        (message,) = (await session.client.get_prompt("deploy", {"arguments": "staging v2"})).messages
        assert FILLED in message.content.text
        assert message.content.text.endswith(REQUEST)


@pytest.mark.parametrize("client", [CLAUDE, GEMINI, QWEN, OPENCODE, "nobody-knows-it"])
async def test_a_command_without_words_is_the_skill_alone(connect: Connect, make_skill: MakeSkill, client: str) -> None:
    make_skill("deploy", body=BODY)
    async with connect(client_name=client) as session:
        for arguments in ({}, {"arguments": ""}):
            (message,) = (await session.client.get_prompt("deploy", arguments)).messages
            assert BODY in message.content.text
            assert message.content.text.endswith("\n\n/deploy")


@pytest.mark.parametrize("client", [CLAUDE, GEMINI, "nobody-knows-it"])
async def test_a_message_with_skills_is_one_message(connect: Connect, make_skill: MakeSkill, client: str) -> None:
    make_skill("deploy", body=BODY)
    async with connect(client_name=client) as session:
        (message,) = (await session.client.get_prompt("with_skills", {"message": "/deploy staging v2"})).messages
        assert FILLED in message.content.text
        assert REQUEST in message.content.text
