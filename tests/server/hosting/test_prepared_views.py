"""A reload makes the views that are known, so that no request waits for them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from server.config.machine import current_environment
from server.hosting.host import Host
from server.hosting.views import ViewName, ViewRule
from skills_core import Library, Skill, explicit_sources
from tests.conftest import MakeSkill
from tests.server.settings import make_settings

RED, BLUE = frozenset({"red"}), frozenset({"blue"})


@dataclass
class Judge:
    """A rule by the names of skills, which notes the threads that ask it, and can hold up those that are not ours."""

    own: int = field(default_factory=threading.get_ident)
    asked_here: int = 0
    began: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def shows(self, view: ViewName, skill: Skill) -> bool:
        if threading.get_ident() == self.own:
            self.asked_here += 1
        else:
            self.began.set()
            assert self.go.wait(60)
        return skill.content.name.partition("-")[0] in view

    def host(self, skills: Path) -> Host:
        rule = ViewRule(lambda _: RED, self.shows)
        return Host(Library(explicit_sources([skills]), current_environment), make_settings(), rule=rule)


def description(host: Host, view: ViewName) -> str:
    (skill,) = host.view_called(view).catalog.offered
    return str(skill.frontmatter.description)


async def test_known_views_are_made_by_the_reload_and_not_by_a_request(skills: Path, make_skill: MakeSkill) -> None:
    for name in ("red-one", "blue-one"):
        make_skill(name, "old")
    judge = Judge()
    judge.go.set()
    host = judge.host(skills)
    before = {name: host.view_called(name) for name in (RED, BLUE)}
    for view in before.values():
        view.tools(view.default_layout)
    asked = judge.asked_here
    make_skill("red-one", "new")
    await host.reload()
    assert description(host, RED) == "new"
    after = host.view_called(RED)
    assert after.built_layouts == before[RED].built_layouts
    # What a view shows has not changed, so it is the same view.
    assert host.view_called(BLUE) is before[BLUE]
    assert judge.asked_here == asked


async def test_requests_are_answered_from_the_old_catalog_while_views_of_the_new_one_are_made(
    skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("red-one", "old")
    judge = Judge()
    host = judge.host(skills)
    assert description(host, RED) == "old"
    make_skill("red-one", "new")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.reload)
        await anyio.to_thread.run_sync(judge.began.wait, 60)
        assert description(host, RED) == "old"
        # A view that nobody had asked for is of the same catalog.
        make_skill("blue-one", "another")
        assert not host.view_called(BLUE).catalog.offered
        judge.go.set()
    assert description(host, RED) == "new"
    await host.reload()
    assert description(host, BLUE) == "another"


async def test_a_reload_that_fails_leaves_the_views_as_they_are(
    skills: Path, make_skill: MakeSkill, tmp_path: Path
) -> None:
    make_skill("red-one", "old")
    judge = Judge()
    judge.go.set()
    host = judge.host(skills)
    view = host.view_called(RED)
    skills.rename(tmp_path / "elsewhere")
    await host.try_reload()
    (tmp_path / "elsewhere").rename(skills)
    await host.try_reload()
    assert description(host, RED) == "old"
    make_skill("red-one", "new")
    await host.reload()
    assert description(host, RED) == "new"
    assert view.catalog is not host.view_called(RED).catalog


async def test_what_a_reload_changed_in_a_view_is_not_found_again_by_those_who_ask(
    skills: Path, make_skill: MakeSkill
) -> None:
    for name in ("red-one", "red-two", "blue-one"):
        make_skill(name, "old")
    judge = Judge()
    judge.go.set()
    host = judge.host(skills)
    for view in (RED, BLUE):
        host.view_called(view)
    told: list[tuple[int, int]] = []
    host.on_change(lambda change: told.append((host.change_in(RED, change).size, host.change_in(BLUE, change).size)))
    asked = judge.asked_here
    make_skill("red-one", "new")
    await host.reload()
    make_skill("red-one", "newer")
    make_skill("blue-two", "new")
    change = await host.reload()
    assert told == [(1, 0), (1, 1)]
    assert judge.asked_here == asked
    (added,) = host.change_in(BLUE, change).added
    assert added.name == "blue-two"
    assert host.change_in(BLUE, change).after is host.view_called(BLUE).catalog
