"""An edit on disk reaches every client: which notifications come, how many, and what a request sees then."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from mcp.shared.exceptions import MCPError

from server.hosting.views import COMMON_VIEW
from server.listing.layout import ListingLayout
from skills_core import Change
from tests.conftest import MakeSkill, write_skill
from tests.server.sessions import Connect, ConnectHosted


@pytest.mark.every_way
async def test_tools_and_catalog_appear_with_the_first_skill_and_vanish_with_the_last(
    connect: Connect, make_skill: MakeSkill, skills: Path
) -> None:
    lists = ["prompts", "resources", "tools"]
    async with connect() as session:
        assert await session.enum() == []
        for number in range(1, 4):
            make_skill("first")
            await session.until_all_told(lists, 2 * number - 1)
            assert await session.enum() == ["first"]
            shutil.rmtree(skills / "first")
            await session.until_all_told(lists, 2 * number)
            assert await session.enum() == []
            # What is told once too often is seen at the latest with the next change.
            assert sorted(session.told) == sorted(2 * number * lists)


def _rewrite(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


CHANGES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "a description": (lambda f: _rewrite(f / "SKILL.md", "a thing", "all things"), {"tools", "prompts", "resources"}),
    "a body of the same length": (lambda f: _rewrite(f / "SKILL.md", "Do the", "Do not"), set()),
    "a body of another length": (lambda f: _rewrite(f / "SKILL.md", "Do the", "Never do the"), {"resources"}),
    "a parameter, at the same length": (lambda f: _rewrite(f / "SKILL.md", "Do the", "{{a}} "), {"prompts"}),
    "a new file": (lambda f: (f / "new.md").write_text("new"), {"resources"}),
    "a hidden file": (lambda f: (f / ".hidden").write_text("new"), set()),
    "for users only": (
        lambda f: _rewrite(f / "SKILL.md", "---\n\n", "disable-model-invocation: true\n---\n\n"),
        {"tools", "resources"},
    ),
    "for models only": (
        lambda f: _rewrite(f / "SKILL.md", "---\n\n", "user-invocable: false\n---\n\n"),
        {"prompts", "resources"},
    ),
    "a touch": (lambda f: os.utime(f / "SKILL.md"), set()),
}


@pytest.mark.every_way
async def test_each_list_is_announced_once_if_it_changed_and_not_otherwise(
    connect: Connect, make_skill: MakeSkill
) -> None:
    other = make_skill("other", files={"last.md": b"0"})
    folders = {what: make_skill(f"skill-{number}") for number, what in enumerate(CHANGES)}
    async with connect(subscribe=("skill://other/last.md",)) as session:
        for what, (change, expected) in CHANGES.items():
            session.told.clear()
            change(folders[what])
            await session.until_all_told(expected)
            assert await session.told_before(other / "last.md", "skill://other/last.md") == sorted(expected), what


async def test_a_change_that_only_a_client_with_more_room_sees_is_announced_whatever_changed_before(
    make_skill: MakeSkill, skills: Path, in_memory: ConnectHosted
) -> None:
    folders = [make_skill(f"s{number}", description="Does a thing. " * 20) for number in range(5)]
    budgets = {"catalog_budget": 600, "client_budgets": {"mcp": 10_000}}
    async with in_memory(skills, watch=False, **budgets) as session:
        await session.enum()
        _rewrite(folders[0] / "SKILL.md", "Do the thing.", "Do another thing.")
        await session.host.reload()
        await anyio.wait_all_tasks_blocked()
        assert "tools" not in session.told
        _rewrite(folders[4] / "SKILL.md", "Does a thing.", "Does another thing.")
        await session.host.reload()
        await anyio.wait_all_tasks_blocked()
        assert session.told.count("tools") == 1


@pytest.mark.every_way
async def test_subscribers_of_a_resource_hear_of_its_new_bytes_and_of_no_other(
    connect: Connect, make_skill: MakeSkill
) -> None:
    folder = make_skill("one", files={"a.md": b"a", "b.md": b"b"})
    async with connect(subscribe=("skill://one/a.md",)) as session:
        (folder / "b.md").write_bytes(b"B")
        assert await session.told_before(folder / "a.md", "skill://one/a.md") == []
        contents = (await session.client.read_resource("skill://one/a.md")).contents[0]
        assert contents.text == "2"


@pytest.mark.every_way
async def test_when_a_client_is_told_its_next_request_sees_the_change(connect: Connect, make_skill: MakeSkill) -> None:
    folder = make_skill("one")
    async with connect() as session:
        for number in range(5):
            session.told.clear()
            text = f"---\nname: one\ndescription: Version {number}.\n---\nBody {number}.\n" + "x" * number
            scratch = folder.parent / ".scratch"
            scratch.write_text(text)
            scratch.replace(folder / "SKILL.md")
            await session.until_told("tools")
            assert f"Version {number}." in (await session.client.list_tools()).tools[0].description
            assert f"Body {number}." in await session.activate("one")


async def test_a_burst_of_a_thousand_events_ends_in_one_notification_of_each_kind(
    connect: Connect, make_skill: MakeSkill
) -> None:
    seed = make_skill("seed", files={"last.md": b"0"})
    async with connect(subscribe=("skill://seed/last.md",), SKILLSERVE_WATCH_DEBOUNCE_MS="1500") as session:
        for number in range(250):
            make_skill(f"skill-{number:03d}", files={"a.md": b"a", "b.md": b"b", "c/d.md": b"d"})
        await session.until_all_told(["prompts", "resources", "tools"])
        told = await session.told_before(seed / "last.md", "skill://seed/last.md")
        assert told == ["prompts", "resources", "tools"]
        assert len(await session.enum()) == 251


async def test_folders_moved_in_out_and_renamed_whole_end_in_the_right_catalog(
    connect: Connect, make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("stays")
    outside = tmp_path / "outside"
    outside.mkdir()
    make_skill("moves", files={"deep/er/file.md": b"x"})
    (skills / "moves").rename(outside / "moves")
    async with connect() as session:
        steps: tuple[tuple[list[str], Callable[[], object]], ...] = (
            (["moves", "stays"], lambda: (outside / "moves").rename(skills / "moves")),
            (["moves", "stays"], lambda: (skills / "moves").rename(skills / "renamed")),
            (["stays"], lambda: (skills / "renamed").rename(outside / "gone")),
        )
        for expected, step in steps:
            session.told.clear()
            step()
            await session.until_told("resources")
            await session.until_enum(expected)


async def test_the_skills_folder_may_be_deleted_and_come_back(
    connect: Connect, make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    make_skill("one")
    async with connect(SKILLSERVE_WATCH_POLL_MS="100") as session:
        # The server notifies clients of the load too, and this test waits for the notification of the removal.
        await session.until_enum(["one"])
        skills.rename(tmp_path / "away")
        await session.until_told("tools")
        assert await session.enum() == []
        session.told.clear()
        (tmp_path / "away").rename(skills)
        await session.until_told("tools")
        assert await session.enum() == ["one"]
        session.told.clear()
        make_skill("two")
        await session.until_told("tools")
        assert await session.enum() == ["one", "two"]


async def test_a_half_written_skill_comes_in_when_it_is_whole(
    make_skill: MakeSkill, skills: Path, in_memory: ConnectHosted
) -> None:
    make_skill("stays")
    folder = skills / "slow"
    folder.mkdir()
    text = "---\nname: slow\ndescription: Written slowly.\n---\nBody.\n"
    async with in_memory(skills, watch=False) as session:
        for end in range(0, len(text), 3):
            (folder / "SKILL.md").write_text(text[:end])
            await session.host.reload()
            if end < text.index("---\nBody"):
                await anyio.wait_all_tasks_blocked()
                assert (await session.enum(), session.told) == (["stays"], [])
        await session.until_told("tools")
        assert await session.enum() == ["slow", "stays"]
        assert session.told.count("tools") == 1


async def test_polling_notices_changes_where_the_system_cannot_be_asked(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("one")
    async with connect(SKILLSERVE_WATCH="poll", SKILLSERVE_WATCH_POLL_MS="100") as session:
        make_skill("two")
        await session.until_told("tools")
        assert await session.enum() == ["one", "two"]


async def test_a_frozen_server_keeps_its_catalog_while_another_follows_the_same_folder(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("one")
    async with connect(SKILLSERVE_WATCH="off") as frozen, connect() as following:
        for name in ("two", "six"):
            following.told.clear()
            make_skill(name)
            await following.until_told("tools")
        assert await frozen.enum() == ["one"]
        assert frozen.told == []


async def test_bytes_that_changed_are_announced_before_they_are_served(connect: Connect, make_skill: MakeSkill) -> None:
    folder = make_skill("one", files={"a.md": b"old"})
    async with connect(subscribe=("skill://one/a.md",), SKILLSERVE_WATCH="off") as session:
        (folder / "a.md").write_bytes(b"new and longer")
        contents = (await session.client.read_resource("skill://one/a.md")).contents[0]
        assert contents.text == "new and longer"
        await session.until_told("updated skill://one/a.md")
        sizes = {resource.uri: resource.size for resource in (await session.client.list_resources()).resources}
        assert sizes["skill://one/a.md"] == len(b"new and longer")


async def test_a_request_under_way_finishes_on_its_own_snapshot(
    make_skill: MakeSkill, skills: Path, in_memory: ConnectHosted
) -> None:
    folder = make_skill("one", description="The old words.")
    make_skill("two")
    async with in_memory(skills, watch=False, page_size=1) as session:
        under_way = session.host.view_called(COMMON_VIEW)
        first = under_way.prompts.page(None)
        _rewrite(folder / "SKILL.md", "The old words.", "The new words.")
        shutil.rmtree(skills / "two")
        await session.host.reload()
        assert "The old words." in under_way.tools(ListingLayout(2000))["tools"][0]["description"]
        assert under_way.prompts.page(first["nextCursor"])["prompts"][0]["name"] == "two"
        assert under_way.catalog.skill("two").body == "Do the thing."
        assert "The new words." in (await session.client.list_tools()).tools[0].description


async def test_a_cursor_of_the_list_before_a_change_goes_on_where_it_was(
    make_skill: MakeSkill, skills: Path, in_memory: ConnectHosted
) -> None:
    for name in ("a", "c", "e"):
        make_skill(name)
    async with in_memory(skills, watch=False, page_size=1) as session:
        first = await session.client.list_prompts()
        make_skill("b")
        shutil.rmtree(skills / "c")
        await session.host.reload()
        seen = [prompt.name for prompt in first.prompts]
        cursor = first.next_cursor
        while cursor:
            page = await session.client.list_prompts(cursor=cursor)
            seen += [prompt.name for prompt in page.prompts]
            cursor = page.next_cursor
        assert seen == ["a", "b", "e", "with_skills"]


async def test_a_subscriber_hears_of_a_file_that_appears_and_of_one_that_returns(
    connect: Connect, make_skill: MakeSkill
) -> None:
    folder = make_skill("one")
    uri = "skill://one/new.md"
    async with connect(subscribe=(uri,)) as session:
        for content in ("first", "second"):
            session.told.clear()
            (folder / "new.md").write_text(content)
            await session.until_told(f"updated {uri}")
            session.told.clear()
            (folder / "new.md").unlink()
            await session.until_told(f"updated {uri}")


async def test_after_a_reload_that_failed_everything_is_compared(
    make_skill: MakeSkill, skills: Path, in_memory: ConnectHosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    async with in_memory(skills) as session:
        await anyio.sleep(0.3)
        library = session.host.library
        failed = threading.Event()

        def fail_once(changed: object = None, *_: object) -> Change:
            if not failed.is_set():
                failed.set()
                raise OSError("the disk is away")
            return type(library).reload(library, changed)  # type: ignore[arg-type]

        monkeypatch.setattr(library, "reload", fail_once)
        make_skill("missed")
        assert await anyio.to_thread.run_sync(failed.wait, 60)
        make_skill("seen")
        await session.until_told("tools")
        assert await session.enum() == ["missed", "one", "seen"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
async def test_a_skill_that_is_linked_into_place_is_followed_like_any_other(
    connect: Connect, skills: Path, tmp_path: Path
) -> None:
    linked = write_skill(tmp_path / "repository", "linked", files={"guide.md": b"old"})
    subscribe = ("skill://linked/guide.md",)
    async with connect(subscribe=subscribe, SKILLSERVE_FOLLOW_SYMLINKS="true") as session:
        (skills / "linked").symlink_to(linked)
        await session.until_told("tools")
        assert await session.enum() == ["linked"]
        for text in ("newer", "the newest"):
            session.told.clear()
            (linked / "guide.md").write_text(text)
            await session.until_told("updated skill://linked/guide.md")
            result = await session.client.read_resource("skill://linked/guide.md")
            assert result.contents[0].text == text
        session.told.clear()
        (skills / "linked").unlink()
        await session.until_told("tools")
        assert await session.enum() == []


async def test_single_files_are_served_and_followed_like_skill_folders(connect: Connect, skills: Path) -> None:
    documents = skills / ".skills"
    documents.mkdir(parents=True)
    (skills / "AGENTS.md").write_text("# How we work\n\nTest first.\n", encoding="utf-8")
    (documents / "notes.md").write_text("# Notes\n", encoding="utf-8")
    async with connect() as session:
        assert await session.enum() == ["agents"]
        assert "Test first." in await session.activate("agents")
        assert [prompt.name for prompt in (await session.client.list_prompts()).prompts] == ["agents", "with_skills"]
        (contents,) = (await session.client.read_resource("skill://agents/AGENTS.md")).contents
        assert contents.text == "# How we work\n\nTest first.\n"
        (documents / "notes.md").write_text("---\nname: notes\ndescription: d\n---\nNow a skill.\n", encoding="utf-8")
        await session.until_told("tools")
        assert await session.enum() == ["agents", "notes"]
        assert "Now a skill." in await session.activate("notes")
        (skills / "AGENTS.md").unlink()
        await session.until_enum(["notes"])


async def test_the_uris_of_subscriptions_may_not_be_long_together(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("seed")
    long = [f"skill://seed/{number:03d}-{'x' * 4000}.md" for number in range(100)]
    refusal = pytest.RaisesExc(MCPError, match=r"the URIs of subscriptions are too long; at most 400000 characters")
    with pytest.RaisesGroup(refusal, allow_unwrapped=True, flatten_subgroups=True):
        async with connect(subscribe=tuple(long)) as session:
            assert await session.enum() == ["seed"]
    async with connect(subscribe=tuple(long[:99])) as session:
        assert await session.enum() == ["seed"]
