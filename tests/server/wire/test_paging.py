"""Pages and cursors: every entry appears once, and a cursor that does not belong to the list is refused."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import count
from typing import Any

import mcp_types as types
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from server.wire.paging import InvalidCursorError, Pager
from tests.conftest import MakeSkill
from tests.server.protocol.test_skills_extension import ask
from tests.server.sessions import Connect, Session

KEYS = st.lists(st.text(st.characters(), max_size=6), unique=True, max_size=12).map(sorted)
SIZES = st.integers(1, 5)

LISTS: list[tuple[str, dict[str, str]]] = [
    *((method, {}) for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list")),
    ("skills/list", {}),
    ("resources/directory/read", {"uri": "skill://one"}),
]


def pages_of(keys: list[str], size: int = 2, what: str = "things", of: str = "") -> Pager[str]:
    def items_after(last: str | None) -> Iterator[tuple[str, str]]:
        return ((key, key) for key in keys if last is None or key > last)

    return Pager(items_after, size, what, lambda key: key, {}, of=of)


def walk(pager: Pager[str], cursor: str | None = None) -> tuple[list[str], list[str]]:
    """Return all entries from a cursor on, and the cursors on the way."""
    seen: list[str] = []
    cursors: list[str] = []
    while True:
        page = pager.page(cursor)
        seen += page["things"]
        cursor = page.get("nextCursor")
        if cursor is None:
            return seen, cursors
        cursors.append(cursor)


@given(KEYS, SIZES)
def test_the_pages_of_a_list_hold_each_entry_once_in_order(keys: list[str], size: int) -> None:
    assert walk(pages_of(keys, size))[0] == keys


def test_a_page_of_a_list_without_end_takes_one_item_more_than_it_shows() -> None:
    taken: list[str] = []

    def items_after(last: str | None) -> Iterator[tuple[str, str]]:
        for number in count(0 if last is None else int(last) + 1):
            taken.append(f"{number:06}")
            yield f"{number:06}", f"{number:06}"

    pager = Pager(items_after, 3, "things", lambda key: key, {})
    page = pager.page(None)
    for number in range(100):
        assert page["things"] == [f"{number * 3 + each:06}" for each in range(3)]
        taken.clear()
        page = pager.page(page["nextCursor"])
        assert len(taken) == 4
    taken.clear()
    assert pager.page(None)["things"] == ["000000", "000001", "000002"], "a page that is not kept is built again"


@given(KEYS, KEYS, SIZES, SIZES)
def test_a_cursor_continues_after_its_entry_in_a_changed_list(
    before: list[str], after: list[str], size: int, other: int
) -> None:
    for number, cursor in enumerate(walk(pages_of(before, size))[1], 1):
        last = before[number * size - 1]
        assert walk(pages_of(after, other), cursor)[0] == [key for key in after if key > last]


@given(st.text(max_size=30) | st.binary(max_size=30).map(lambda raw: base64.urlsafe_b64encode(raw).decode()), KEYS)
def test_any_other_text_is_refused(text: str, keys: list[str]) -> None:
    pager = pages_of(keys)
    assume(text not in walk(pager)[1])
    with pytest.raises(InvalidCursorError):
        pager.page(text)


@given(KEYS.filter(lambda keys: len(keys) > 2), st.data())
def test_an_altered_cursor_is_refused(keys: list[str], data: st.DataObject) -> None:
    pager = pages_of(keys)
    cursor = walk(pager)[1][0]
    at = data.draw(st.integers(0, len(cursor)))
    altered = cursor[:at] + data.draw(st.sampled_from(["", "A", "_", "=", " ", "\n", "é"])) + cursor[at + 1 :]
    assume(altered != cursor)
    with pytest.raises(InvalidCursorError):
        pager.page(altered)


@given(KEYS.filter(lambda keys: len(keys) > 2))
def test_a_cursor_of_another_list_is_refused(keys: list[str]) -> None:
    cursor = pages_of(keys).page(None)["nextCursor"]
    for other in (pages_of(keys, what="others"), pages_of(keys, of="folder")):
        with pytest.raises(InvalidCursorError):
            other.page(cursor)


async def refused(session: Session, method: str, **params: Any) -> None:
    with pytest.raises(MCPError, match="cursor") as caught:
        await ask(session, method, **params)
    assert caught.value.code == types.INVALID_PARAMS


async def test_every_list_refuses_foreign_cursors_and_accepts_its_own_after_a_restart(
    connect: Connect, make_skill: MakeSkill
) -> None:
    for name in ("one", "two"):
        make_skill(name, files={"a.md": b"a", "b.md": b"b"})
    cursors: dict[str, str] = {}
    async with connect(SKILLSERVE_PAGE_SIZE="1") as session:
        for method, params in LISTS:
            page = await ask(session, method, **params)
            cursors |= {method: page["nextCursor"]} if page.get("nextCursor") else {}
            for odd in ("", "not-a-cursor", "eyJvIjotMX0=", "MTA=", "b25l"):
                await refused(session, method, cursor=odd, **params)
        assert cursors.keys() == {"prompts/list", "resources/list", "resources/directory/read"}
        for method, params in LISTS:
            for origin, cursor in cursors.items():
                if origin != method:
                    await refused(session, method, cursor=cursor, **params)
        await refused(
            session, "resources/directory/read", uri="skill://two", cursor=cursors["resources/directory/read"]
        )
    async with connect(SKILLSERVE_PAGE_SIZE="1") as session:
        for method, params in LISTS:
            if method in cursors:
                assert await ask(session, method, cursor=cursors[method], **params)
