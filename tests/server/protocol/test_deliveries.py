"""The pacing of many listeners, and the frames that all of them share."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.subscriptions import event_to_notification

from server.protocol import deliveries
from server.protocol.deliveries import Listener, Pacer, RecentEvents, handshake_frames, modern_frames

URIS = [f"skill://{name}/SKILL.md" for name in ("a", "null", "ä%20b")]
EVENTS = [ToolsListChanged(), PromptsListChanged(), ResourcesListChanged(), *map(ResourceUpdated, URIS)]


class Woken:
    """The listeners that a pacer wakes, in groups between which the event loop served others."""

    def __init__(self) -> None:
        self.groups: list[list[Listener]] = []
        self._group: list[Listener] | None = None

    def note(self, listener: Listener) -> None:
        if self._group is None:
            self.groups.append([])
            self._group = self.groups[-1]
            asyncio.get_running_loop().call_soon(self._end_group)
        self._group.append(listener)

    def _end_group(self) -> None:
        self._group = None

    @property
    def all(self) -> list[Listener]:
        return [each for group in self.groups for each in group]

    async def until(self, count: int) -> None:
        with anyio.fail_after(60):
            while len(self.all) < count:  # noqa: ASYNC110 - the pacer has no event
                await anyio.sleep(0.002)


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> Woken:
    woken = Woken()
    # A plain function is bound to the listener, a method of another object is not.
    monkeypatch.setattr(Listener, "wake", lambda listener: woken.note(listener))  # noqa: PLW0108
    return woken


async def test_listeners_are_woken_a_few_at_a_time_in_their_order_each_once(woken: Woken) -> None:
    pacer, listeners = Pacer(), [Listener() for _ in range(3 * deliveries.AT_ONCE + 1)]
    pacer.add(listeners)
    # They are still due, so they are not woken twice.
    pacer.add(listeners[deliveries.AT_ONCE :])
    await woken.until(len(listeners))
    assert woken.all == listeners
    assert max(map(len, woken.groups)) == deliveries.AT_ONCE


async def test_who_left_is_not_woken_and_whoever_comes_later_is(woken: Woken) -> None:
    pacer, listeners = Pacer(), [Listener() for _ in range(2 * deliveries.AT_ONCE)]
    pacer.add(listeners)
    for each in listeners[deliveries.AT_ONCE :]:
        pacer.discard(each)
    later = Listener()
    pacer.add([later])
    await woken.until(deliveries.AT_ONCE + 1)
    assert woken.all == [*listeners[: deliveries.AT_ONCE], later]


def decoded(frames: bytes) -> list[dict[str, Any]]:
    """Return the fields of each event, with its data decoded."""
    events = []
    for frame in frames.decode().split("\r\n\r\n")[:-1]:
        fields: dict[str, Any] = dict(line.split(": ", 1) for line in frame.split("\r\n"))
        events.append({**fields, "data": json.loads(fields["data"])})
    return events


@given(events=st.lists(st.sampled_from(EVENTS), unique=True), subscription=st.integers() | st.text())
def test_frames_say_what_the_sdk_says(events: list[Any], subscription: int | str) -> None:
    numbered = [*enumerate(events, start=7)]
    meta = {SUBSCRIPTION_ID_META_KEY: subscription}
    told = [
        event_to_notification(each, meta).model_dump(by_alias=True, mode="json", exclude_none=True) for each in events
    ]
    modern = decoded(modern_frames(numbered, subscription))
    assert [each["data"] for each in modern] == [{"jsonrpc": "2.0", **each} for each in told]
    assert all(each["event"] == "message" and "id" not in each for each in modern)
    handshake = decoded(handshake_frames(numbered))
    for each in told:
        del each["params"]["_meta"]
    assert [each["data"]["method"] for each in handshake] == [each["method"] for each in told]
    assert [each["data"].get("params", {}) for each in handshake] == [each["params"] for each in told]
    assert [int(each["id"]) for each in handshake] == [number for number, _ in numbered]


@given(
    events=st.lists(st.sampled_from(EVENTS), max_size=40),
    number=st.integers(0, 40),
    count=st.sampled_from([0, 1, len(URIS)]),
)
def test_events_are_found_by_what_is_listened_to_as_by_what_happened(
    events: list[Any], number: int, count: int
) -> None:
    recent, subscriptions = RecentEvents(), frozenset(URIS[:count])
    for event in events:
        recent.add(event)
    found = recent.since(number, subscriptions)
    last = {event: at for at, event in enumerate(events, start=1)}
    wanted = [(at, each) for each, at in last.items() if at > number]
    assert found == sorted(
        (each for each in wanted if not isinstance(each[1], ResourceUpdated) or each[1].uri in subscriptions),
        key=lambda each: each[0],
    )
