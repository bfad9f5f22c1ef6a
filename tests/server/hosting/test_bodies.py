"""Requests get bodies that match their catalog: of a file that has changed, the catalog learns first."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from server.hosting.host import Host
from server.hosting.verified_reader import ATTEMPTS
from server.wire.params import InvalidRequestError
from skills_core import Environment, Library, Skill, explicit_sources
from skills_core.errors import FileUnavailableError
from skills_core.live.watch_options import WatchMode
from skills_core.loading import loader
from skills_core.skills import skill as skill_module
from skills_core.skills.bodies import Bodies
from tests.conftest import MakeSkill
from tests.core.test_system_faults import Faults
from tests.server.settings import make_settings


@pytest.fixture
def host(make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host of one skill whose body is not in memory."""
    make_skill("one", body="First.")
    kept = Bodies()
    monkeypatch.setattr(loader, "BODIES", Bodies(0))
    monkeypatch.setattr(skill_module, "BODIES", kept)
    library = Library(explicit_sources([skills]), lambda: Environment(os="linux", has_bin=lambda _: True))
    return Host(library, make_settings(watch=WatchMode.OFF))


def held(host: Host) -> Callable[[], Awaitable[Skill]]:
    async def hold() -> Skill:
        found = host.everything.skill("one")
        await host.reader.hold_body(found)
        return found

    return hold


async def test_a_body_is_brought_into_memory_once(host: Host, skills: Path) -> None:
    found = await host.with_bodies(held(host))
    (skills / "one" / "SKILL.md").unlink()
    await host.reader.hold_body(found)
    assert found.content.kept_body == "First."


async def test_a_changed_file_is_reloaded_before_its_body_is_used(host: Host, skills: Path) -> None:
    path = skills / "one" / "SKILL.md"
    path.write_bytes(path.read_bytes().replace(b"First.", b"Second."))
    before = host.everything.skill("one")
    found = await host.with_bodies(held(host))
    assert (found.content.kept_body, found is host.everything.skill("one")) == ("Second.", True)
    assert found.digest != before.digest


async def test_a_file_that_changes_at_every_attempt_is_an_error(host: Host, skills: Path) -> None:
    path, tries = skills / "one" / "SKILL.md", 0

    async def rewritten() -> None:
        nonlocal tries
        tries += 1
        found = host.everything.skill("one")
        await anyio.Path(path).write_text(f"---\nname: one\ndescription: d\n---\n{tries}\n")
        await host.reader.hold_body(found)

    with pytest.raises(InvalidRequestError, match="'one' have changed since it was loaded; try again"):
        await host.with_bodies(rewritten)
    assert tries == ATTEMPTS


async def test_a_file_that_cannot_be_read_now_is_not_reloaded(host: Host) -> None:
    before = host.everything
    with Faults(errno.EMFILE).striking(), pytest.raises(FileUnavailableError):
        await host.with_bodies(held(host))
    assert host.everything is before
