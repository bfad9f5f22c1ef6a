"""Results of tools that are longer than what the client passes on: they say themselves what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.clients.profile import Evidence, Limit, Unit
from server.config.settings.tools import OptionalTool
from server.protocol.tool_call import MARGIN, ResultRoom, result_size
from server.protocol.tools.cut_results import cut_to_room
from tests.conftest import write_skill
from tests.server.sessions import texts_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.sessions import ConnectHosted

EVIDENCE = Evidence("a test", "2026-11-22")


def room_of(most: int, unit: Unit = Unit.CHARACTERS) -> ResultRoom:
    return ResultRoom(Limit(most + MARGIN, EVIDENCE, unit))


def result_of(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], "isError": False, **more}


def test_a_result_that_fits_is_left_alone() -> None:
    result = result_of("a" * 900, structuredContent={"a": 1})
    assert cut_to_room(result, room_of(1000)) is result
    assert cut_to_room(result, None) is result


def test_the_longest_text_is_cut_and_says_so() -> None:
    result = result_of("a\n" * 4000, "the problem")
    found = cut_to_room(result, room_of(1000))
    cut, problem = (block["text"] for block in found["content"])
    assert problem == "the problem"
    text, _, note = cut.rpartition("\n")
    assert note == (
        f"[Cut here by the server: {len(text)} of 8000 characters. "
        "This client passes on at most 1100 characters of a result.]"
    )
    assert len(text) > 800


def test_advice_follows_where_there_is_some() -> None:
    found = cut_to_room(result_of("a" * 4000), room_of(1000), "Ask for less.")
    assert found["content"][0]["text"].endswith(" Ask for less.]")


def test_many_short_texts_are_left_out_from_the_end_and_counted() -> None:
    found = cut_to_room(result_of(*["x" * 100] * 50), room_of(1000))
    *texts, note = (block["text"] for block in found["content"])
    assert note.startswith(f"\n[Left out by the server: {50 - len(texts)} more texts of this result.")
    assert len(texts) > 5


@pytest.mark.parametrize(("length", "left_out"), [(700, 8), (850, 9)])
def test_news_are_left_out_before_an_answer_that_fits_is_cut(length: int, left_out: int) -> None:
    answer = "a" * length
    found = cut_to_room(result_of(answer, *["x" * 100] * 9), room_of(1000), news=9)
    texts = [block["text"] for block in found["content"]]
    assert texts[0] == answer
    assert texts[-1].startswith(f"\n[Left out by the server: {left_out} more texts of this result.")


@pytest.mark.parametrize("length", range(860, 1001, 10))
def test_an_answer_is_never_left_out_for_news(length: int) -> None:
    found = cut_to_room(result_of("a" * length, "x" * 200), room_of(1000), news=1)
    assert found["content"][0]["text"].startswith("a" * 500)


def test_a_structure_that_a_schema_promises_stays_and_a_warning_comes_first() -> None:
    structure = {"skills": ["x"] * 1000}
    found = cut_to_room(result_of("a", structuredContent=structure), room_of(1000), "Ask for less.")
    assert found["structuredContent"] == structure
    warning, text = (block["text"] for block in found["content"])
    assert warning.startswith("[This result may be cut: it is too long. This client passes on at most 1100 characters")
    assert warning.endswith(" Ask for less.]")
    assert text == "a"


@given(
    st.lists(st.text(max_size=100).map(lambda text: text * 30), max_size=12),
    st.integers(600, 4000),
    st.sampled_from(Unit),
    st.integers(0, 3),
)
def test_whatever_a_result_has_it_fits_and_nothing_is_missing_silently(
    texts: list[str], most: int, unit: Unit, news: int
) -> None:
    found = cut_to_room(result_of(*texts), room_of(most, unit), news=min(news, len(texts)))
    assert result_size(found, unit) <= most
    shown = [block["text"] for block in found["content"]]
    if "by the server: " not in "".join(shown):
        assert shown == texts


class TestUnits:
    """What clients count."""

    @pytest.mark.parametrize(
        ("unit", "size"),
        [
            (Unit.CHARACTERS, 5),
            (Unit.BYTES, 8),
            (Unit.JSON, 5 + 1 + len('{"content":[{"type":"text","text":""}],"isError":false}')),
            (Unit.JSON_BYTES, 8 + 1 + len('{"content":[{"type":"text","text":""}],"isError":false}')),
        ],
    )
    def test_each_unit(self, unit: Unit, size: int) -> None:
        assert result_size({**result_of('é😀"a'), "resultType": "complete"}, unit) == size

    @pytest.mark.parametrize(("structured", "size"), [(False, 3), (True, 12)])
    def test_the_structure_counts_where_it_is_sent(self, *, structured: bool, size: int) -> None:
        result = result_of("abc", structuredContent={"a": "é"})
        assert result_size(result, Unit.CHARACTERS, structured=structured) == size

    def test_embedded_text_counts_and_images_do_not(self) -> None:
        blocks = [
            {"type": "resource", "resource": {"uri": "skill://a", "text": "abc"}},
            {"type": "image", "data": "x" * 100, "mimeType": "image/png"},
        ]
        assert result_size({"content": blocks}, Unit.CHARACTERS) == 3


async def test_a_search_leaves_out_the_last_matches_and_says_how_many(in_memory: ConnectHosted, skills: Path) -> None:
    for number in range(60):
        write_skill(skills, f"pdf-{number:02d}", description=f"Fills forms of PDF number {number}. " + "more " * 60)
    arguments = {"query": "pdf forms", "limit": 50}
    async with in_memory(skills, client_name="test") as session:
        whole = await session.client.call_tool("find_skills", arguments)
    async with in_memory(skills, client_name="@cline/core") as session:
        result = await session.client.call_tool("find_skills", arguments)
    every, found = whole.content[0].text.splitlines(), result.content[0].text.splitlines()
    shown = sum(line.startswith("pdf-") for line in found)
    assert found[:shown] == every[:shown]
    assert len(every) == 51
    assert 3 < shown < 50
    assert found[-1] == (
        f"{50 - shown} more matches: this client passes on no more of one result; narrow the query, or use tags"
    )
    text = result.model_dump_json(by_alias=True, exclude_none=True)
    assert len(text) < 8000


async def test_a_context_that_is_too_long_says_how_to_get_the_skill(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "long", body="Do it.\n" * 5000)
    settings: dict[str, Any] = {"tools": (OptionalTool("skill_context"),)}
    async with in_memory(skills, client_name="@cline/core", **settings) as session:
        result = await session.client.call_tool("skill_context", {"message": "/long now"})
    texts = texts_of(result)
    assert result.structured_content is None
    assert "Call activate_skill for a skill whose text is cut.]" in "".join(texts)
    assert "now" in texts[-1]
