"""What happens at a server is there as events: the last ones, and new ones for those who listen."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio

from server.config.machine import current_environment
from server.hosting.activity import MAX_EVENTS, Activity, News, Subscription
from server.hosting.host import Host
from server.requests import RequestDecision, RequestReason, RequestRecord
from skills_core import Library, explicit_sources
from skills_core.live.watch_options import WatchMode
from tests.conftest import MakeSkill
from tests.server.serving import serving
from tests.server.settings import make_settings


def told(host: Host) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in host.activity.events]


async def news_of(subscription: Subscription) -> News | None:
    with anyio.fail_after(30):
        return await subscription.next(30)


async def test_uses_searches_and_refusals_are_events_and_lists_are_not(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one", files={"notes.md": b"Notes."})
    async with serving(skills) as served:
        await served.ask("tools/list")
        await served.call("activate_skill", name="one", message="my secret")
        await served.call("read_skill_file", skill="one", path="notes.md")
        await served.ask("prompts/get", {"name": "one"})
        await served.call("find_skills", query="my secret")
        await served.call("activate_skill", name="two")
        assert told(served.host) == [
            ("activation", "one activated"),
            ("read", "one: a file read"),
            ("activation", "one activated as a prompt"),
            ("search", "searched, and found nothing"),
            ("invalid", "activate_skill of two is not possible: unknown skill"),
        ]
        first = served.host.activity.events[0]
        assert (first.skill, first.client, first.who, first.is_trouble) == ("one", "raw 1", "", False)
        assert first.milliseconds is not None
        assert [event.number for event in served.host.activity.events] == [1, 2, 3, 4, 5]
        assert served.host.activity.events[-1].is_trouble


async def test_edits_are_events_with_what_changed(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("goes")
    make_skill("turns")
    library = Library(explicit_sources([skills]), current_environment)
    host = Host(library, make_settings(watch=WatchMode.OFF))
    make_skill("comes")
    make_skill("turns", "Does other things.")
    shutil.rmtree(skills / "goes")
    await host.reload()
    assert sorted(told(host)) == [
        ("added", "comes added"),
        ("edited", "turns changed: description"),
        ("removed", "goes removed"),
    ]
    make_skill("turns", "''")
    await host.reload()
    broken = host.activity.events[-1]
    assert (broken.kind, broken.skill, broken.is_trouble) == ("edited", "turns", True)
    assert "broken" in broken.text


async def test_a_reload_of_many_skills_leaves_room_for_other_events(skills: Path, make_skill: MakeSkill) -> None:
    library = Library(explicit_sources([skills]), current_environment)
    host = Host(library, make_settings(watch=WatchMode.OFF))
    for number in range(60):
        make_skill(f"skill-{number}")
    await host.reload()
    assert len(host.activity.events) == 51
    assert told(host)[-1] == ("edited", "and 10 more changes of skills")


async def test_a_reader_gets_the_last_events_and_then_each_new_one() -> None:
    activity = Activity()
    activity.add("test", "first")
    activity.add("test", "second")
    with activity.subscribed(after=1) as subscription:
        news = await news_of(subscription)
        assert news is not None
        assert [event.text for event in news.events] == ["second"]
        assert await subscription.next(0) == News((), 0)
        async with anyio.create_task_group() as tasks:
            found: list[News | None] = []

            async def read() -> None:
                found.append(await news_of(subscription))

            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            activity.add("test", "third")
    assert found[0] is not None
    assert [event.text for event in found[0].events] == ["third"]


async def test_a_slow_reader_loses_the_oldest_events_and_is_told_how_many() -> None:
    activity = Activity()
    with activity.subscribed() as subscription:
        for number in range(MAX_EVENTS + 7):
            activity.add("test", str(number))
        news = await news_of(subscription)
        assert news is not None
        assert (len(news.events), news.missed, news.events[0].text) == (MAX_EVENTS, 7, "7")
        activity.add("test", "next")
        news = await news_of(subscription)
        assert news is not None
        assert (len(news.events), news.missed) == (1, 0)
    assert len(activity.events) == MAX_EVENTS


async def test_the_end_of_a_server_ends_subscriptions_after_their_last_events() -> None:
    activity = Activity()
    with activity.subscribed() as subscription:
        activity.add("test", "last")
        activity.end()
        news = await news_of(subscription)
        assert news is not None
        assert [event.text for event in news.events] == ["last"]
        assert await news_of(subscription) is None
    with activity.subscribed(after=1) as late:
        assert await news_of(late) is None


def test_a_stream_that_its_client_ends_is_no_event_and_a_text_cannot_control_a_terminal() -> None:
    activity = Activity()
    ended, reason = RequestDecision.FAILED, RequestReason.CANCELLED
    activity.record(RequestRecord(method="subscriptions/listen", request_id="1", decision=ended, reason=reason))
    assert not activity.events
    wrong, target = RequestDecision.INVALID, "a\x1b[2J\u202eb"
    activity.record(RequestRecord(method="tools/call", request_id="1", target=target, decision=wrong, reason="limit"))
    assert activity.events[0].text.isprintable()
