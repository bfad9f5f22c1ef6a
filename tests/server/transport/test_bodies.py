"""Bodies are bounded before they are parsed, and no text is counted as structure."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.transport.bodies import MAX_DEPTH, MAX_META_BYTES, BodyFaultError, check_body

TEXTS = st.text(alphabet='{}[],:"\\/ aé\n\u2028', max_size=12)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def values_in(value: Any) -> int:
    """Count the items and fields behind the first of their container, and the containers."""
    if not isinstance(value, list | dict):
        return 0
    inner = [*value.values()] if isinstance(value, dict) else value
    return 1 + max(0, len(inner) - 1) + sum(map(values_in, inner))


def depth_of(value: Any) -> int:
    if not isinstance(value, list | dict):
        return 0
    return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)


def message(params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@given(params=VALUES, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_a_body_is_refused_exactly_if_it_has_more_values_than_it_may_have(
    *, params: Any, ascii_only: bool, indent: int | None
) -> None:
    body = json.dumps(message(params), ensure_ascii=ascii_only, indent=indent).encode()
    count = values_in(message(params))
    check_body(body, count)
    check_body(body, 0)
    with pytest.raises(BodyFaultError, match=f"at most {count - 1} objects"):
        check_body(body, count - 1)


@given(outer=st.integers(0, 3 * MAX_DEPTH), text=TEXTS, has_fields=st.booleans())
def test_a_body_is_refused_exactly_if_it_is_nested_deeper_than_it_may_be(
    *, outer: int, text: str, has_fields: bool
) -> None:
    params: Any = text * 100
    for _ in range(outer):
        params = {text: params} if has_fields else [params]
    body = json.dumps(message(params)).encode()
    if depth_of(message(params)) <= MAX_DEPTH:
        check_body(body, 10_000)
    else:
        with pytest.raises(BodyFaultError, match="nested too deeply"):
            check_body(body, 10_000)


@given(body=st.binary(max_size=400), limit=st.integers(0, 50))
def test_any_bytes_are_accepted_or_refused(body: bytes, limit: int) -> None:
    with suppress(BodyFaultError):
        check_body(body, limit)


def test_the_meta_of_a_request_is_bounded_and_other_parameters_are_not() -> None:
    large = "x" * (MAX_META_BYTES + 1)
    check_body(json.dumps(message({"arguments": {"text": large}, "_meta": {"a": 1}})).encode(), 10_000)
    check_body(json.dumps(message([large])).encode(), 10_000)
    with pytest.raises(BodyFaultError, match="`_meta` has"):
        check_body(json.dumps(message({"_meta": {"x": large}})).encode(), 10_000)


@pytest.mark.parametrize("body", [b"[]", b' \n\t[{"jsonrpc": "2.0"}]', b"[" * 200_000])
def test_a_batch_is_refused_before_it_is_parsed(body: bytes) -> None:
    with pytest.raises(BodyFaultError, match="batches are not supported"):
        check_body(body, 10_000)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_which_parsers_guess_are_refused(encoding: str) -> None:
    with pytest.raises(BodyFaultError, match="not UTF-8"):
        check_body(json.dumps(message({"≢": 1})).encode(encoding), 10_000)
    assert json.loads(json.dumps(message({})).encode(encoding)) == message({})
