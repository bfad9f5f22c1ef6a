"""Where a catalog has no room for all skills, alike ones share an entry; where it has, nothing differs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest

from server.config.machine import current_environment
from server.hosting.views import COMMON_VIEW
from server.listing.layout import ListingLayout
from server.listing.snapshot import Snapshot
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.selection.ranking import SkillSearch
from tests.server.sessions import ConnectHosted
from tests.server.settings import make_settings

if TYPE_CHECKING:
    from pathlib import Path

    from server.hosting.host import Host
    from tests.conftest import MakeSkill

LONG = " ".join(f"Write field {number} of the form into row {number * 7}." for number in range(60))
FORMS, OTHERS = 30, 30


@pytest.fixture
def library(make_skill: MakeSkill, skills: Path) -> Path:
    for number in range(FORMS):
        make_skill(f"form-{number:02}", description="Sign a form " * 9, body=f"{LONG} Fork {number}.")
    for number in range(OTHERS):
        make_skill(f"other-{number:02}", description=f"Do thing {number} " * 9, body=f"It is {number}.")
    return skills


async def compare(host: Host) -> None:
    """Do what the background does after the start and after each change."""
    view = host.view_called(COMMON_VIEW)
    await anyio.to_thread.run_sync(view.prepare_search, lambda: None)
    await host._views.regroup(view)


def entries(host: Host, layout: ListingLayout) -> list[str]:
    listed = host.view_called(COMMON_VIEW).tools(layout)["tools"]
    description = next(tool["description"] for tool in listed if tool["name"] == "activate_skill")
    return re.findall(r"^- (.*)$", description, re.MULTILINE)


def heard(host: Host) -> list[str]:
    events: list[str] = []
    host.feed(COMMON_VIEW).subscribe(lambda event: events.append(type(event).__name__))
    return events


SMALL = ListingLayout(3000)
LARGE = ListingLayout(50_000)


async def test_alike_skills_share_an_entry_where_there_is_no_room_for_all(
    in_memory: ConnectHosted, library: Path
) -> None:
    async with in_memory(library) as session:
        host = session.host
        before = entries(host, SMALL)
        assert [entry[:7] for entry in before[:2]] == ["form-00", "form-01"]
        assert not [entry for entry in before if "alike)" in entry]
        events = heard(host)
        await compare(host)
        first, *others = entries(host, SMALL)
        assert first.startswith("form-00: Sign a form")
        assert first.endswith(" (and 29 alike)")
        assert [entry[:8] for entry in others] == [f"other-{number:02}" for number in range(OTHERS)]
        assert events == ["ToolsListChanged"]
        for name in ("form-00", "form-29"):
            assert not (await session.client.call_tool("activate_skill", {"name": name})).is_error
        (activate, *_) = host.view_called(COMMON_VIEW).tools(SMALL)["tools"]
        assert len(activate["inputSchema"]["properties"]["name"]["enum"]) == FORMS + OTHERS
        assert f"{FORMS - 1} more skills are not shown here" in activate["description"]


async def test_a_catalog_with_room_for_all_is_the_same_once_skills_are_compared(
    in_memory: ConnectHosted, library: Path
) -> None:
    async with in_memory(library) as session:
        before = session.host.view_called(COMMON_VIEW).tools(LARGE)
        events = heard(session.host)
        await compare(session.host)
        assert session.host.view_called(COMMON_VIEW).alike_to(session.host.everything.offered[0])
        assert session.host.view_called(COMMON_VIEW).tools(LARGE) is before
        assert events == []


async def test_an_edit_of_a_body_announces_no_list_however_often_skills_are_compared(
    in_memory: ConnectHosted, library: Path, make_skill: MakeSkill
) -> None:
    async with in_memory(library) as session:
        host = session.host
        entries(host, SMALL)
        await compare(host)
        shown, events = entries(host, SMALL), heard(host)
        for edit in range(3):
            make_skill("form-00", description="Sign a form " * 9, body=f"{LONG} Edit {edit}.")
            await host.reload()
            assert entries(host, SMALL) == shown
            await compare(host)
            assert entries(host, SMALL) == shown
        assert "ToolsListChanged" not in events


async def test_a_list_made_in_an_earlier_catalog_is_announced_if_the_groups_change_it(
    in_memory: ConnectHosted, library: Path, make_skill: MakeSkill
) -> None:
    async with in_memory(library) as session:
        host = session.host
        entries(host, SMALL)
        await compare(host)
        events = heard(host)
        # It is another skill now, although what lists say of it is the same.
        make_skill("form-00", description="Sign a form " * 9, body="A text of its own.")
        await host.reload()
        assert "ToolsListChanged" not in events
        await compare(host)
        assert events.count("ToolsListChanged") == 1
        shown = entries(host, SMALL)
        assert not shown[0].endswith("alike)")
        assert shown[1].endswith(" (and 28 alike)")


def test_a_pinned_skill_stands_for_its_group_then_one_of_the_first_source(library: Path, tmp_path: Path) -> None:
    fork = tmp_path / "forks" / "a-form"
    fork.mkdir(parents=True)
    (fork / "SKILL.md").write_text(f"---\nname: a-form\ndescription: {'Sign a form ' * 9}\n---\n{LONG} As others do.\n")

    def standing(*sources: Path, **settings: Any) -> list[str]:
        catalog = Library(explicit_sources(sources), current_environment).catalog
        search = SkillSearch()
        search.warm(catalog.offered)
        (activate, *_) = Snapshot(catalog, make_settings(**settings), twins=search.twins).tools(SMALL)["tools"]
        return re.findall(r"^- ([^:]*):.* alike\)$", activate["description"], re.MULTILINE)

    assert standing(library) == ["form-00"]
    assert standing(library, pinned=("form-07",)) == ["form-07"]
    assert standing(library, fork.parent) == ["form-00"]
    assert standing(fork.parent, library) == ["a-form"]
