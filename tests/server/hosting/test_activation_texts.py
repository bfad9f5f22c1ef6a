"""Texts of activations are prepared, and are always those of the current state of a skill."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from server.config.machine import current_environment
from server.hosting import activation_texts, verified_reader
from server.hosting.host import Host
from server.hosting.views import COMMON_VIEW
from skills_core.disk.files import Fingerprint, Location, read_at_once
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.live.watch_options import WatchMode
from skills_core.rendering.activation import render_activation
from skills_core.rendering.recipient import UNKNOWN_RECIPIENT, Recipient
from skills_core.skills.skill import Skill
from tests.server.settings import make_settings

OTHER = Recipient(local=True)


class Renderer:
    """Stands in for the renderer, and notes which skills it renders; `broken` names one that it cannot."""

    def __init__(self, broken: str = "") -> None:
        self.rendered: list[str] = []
        self.broken = broken

    def __call__(self, skill: Skill, *args: object, **options: object) -> str:
        self.rendered.append(skill.name)
        if skill.name == self.broken:
            raise RuntimeError("broken")
        return render_activation(skill, *args, **options)  # type: ignore[arg-type]


@pytest.fixture
def renderer(monkeypatch: pytest.MonkeyPatch) -> Renderer:
    stand_in = Renderer()
    monkeypatch.setattr(activation_texts, "render_activation", stand_in)
    monkeypatch.setattr(activation_texts, "_QUIET_SECONDS", 0)
    return stand_in


def write(root: Path, name: str, body: str = "Do it.") -> None:
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n{body}\n")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on a disk: files in memory are not read ahead."""
    with TemporaryDirectory() as folder:
        yield Path(folder).resolve()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    for name in ("one", "two", "three"):
        write(tmp_path, name)
    return Host(Library(explicit_sources([tmp_path]), current_environment), make_settings(watch=WatchMode.OFF))


def skill(host: Host, name: str) -> Skill:
    return host.everything.skill(name)


@asynccontextmanager
async def preparing(host: Host) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.texts.run)
        yield
        tasks.cancel_scope.cancel()


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not is_so():  # noqa: ASYNC110 - the texts tell nobody
            await anyio.sleep(0.001)


async def test_files_are_read_ahead_with_the_text(
    host: Host, renderer: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked() -> bytes:
        return (await host.reader.read("skill://one/a.md", lambda: host.everything))[2]

    (tmp_path / "one" / "a.md").write_text("first")
    await host.reload()
    async with preparing(host):
        host.texts.expect(COMMON_VIEW, UNKNOWN_RECIPIENT)
        await until(lambda: len(renderer.rendered) == 3)
    read: list[object] = []
    monkeypatch.setattr(verified_reader, "read_at_once", lambda *location: read.append(location))
    assert (await asked(), read) == (b"first", [])
    # A file that has changed since is read again.
    (tmp_path / "one" / "a.md").write_text("second")
    assert await asked() == b"second"


async def test_reading_ahead_keeps_within_its_bounds(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified_reader, "_AHEAD_BYTES", 2500)
    monkeypatch.setattr(verified_reader, "_AHEAD_FILES", 4)
    for name in "abcd":
        (tmp_path / "one" / name).write_text(name * 1000)
        (tmp_path / "two" / name).write_text(name)
    await host.reload()
    read: list[str] = []

    def noted(location: Location, fingerprint: Fingerprint) -> bytes | None:
        read.append(location.relative)
        return read_at_once(location, fingerprint)

    monkeypatch.setattr(verified_reader, "read_at_once", noted)
    for _ in range(2):
        for name in ("one", "two"):
            host.reader.read_ahead(skill(host, name))
    assert read == ["one/SKILL.md", "one/a", "one/b", "two/SKILL.md", "two/a", "two/b", "two/c"]


async def test_a_text_is_rendered_once_for_each_recipient_and_state(host: Host, renderer: Renderer) -> None:
    for _ in range(3):
        for recipient in (UNKNOWN_RECIPIENT, OTHER):
            text = host.texts.text(skill(host, "one"), {}, recipient)
            assert text == render_activation(skill(host, "one"), {}, recipient)
    assert renderer.rendered == ["one", "one"]


async def test_a_text_with_values_or_of_a_replacement_is_rendered_for_its_request(host: Host) -> None:
    values = {"format": "table"}
    host.texts.text(skill(host, "one"), {}, OTHER)
    assert host.texts.text(skill(host, "one"), values, OTHER) == render_activation(skill(host, "one"), values, OTHER)
    replaced = render_activation(skill(host, "one"), {}, OTHER, replaces="sha256:0")
    assert host.texts.text(skill(host, "one"), {}, OTHER, replaces="sha256:0") == replaced


async def test_a_changed_skill_has_its_new_text_at_once(host: Host, tmp_path: Path) -> None:
    host.texts.text(skill(host, "one"), {}, OTHER)
    write(tmp_path, "one", "Do something else.")
    await host.reload()
    assert "Do something else." in host.texts.text(skill(host, "one"), {}, OTHER)


async def test_the_texts_for_a_client_are_there_before_a_request_for_them(host: Host, renderer: Renderer) -> None:
    async with preparing(host):
        host.texts.expect(COMMON_VIEW, OTHER)
        host.texts.expect(COMMON_VIEW, OTHER)
        await until(lambda: len(renderer.rendered) == 3)
        for name in ("one", "two", "three"):
            host.texts.text(skill(host, name), {}, OTHER)
        assert sorted(renderer.rendered) == ["one", "three", "two"]


async def test_a_reload_prepares_only_what_it_changed(host: Host, tmp_path: Path, renderer: Renderer) -> None:
    async with preparing(host):
        host.texts.expect(COMMON_VIEW, OTHER)
        await until(lambda: len(renderer.rendered) == 3)
        write(tmp_path, "two", "Changed.")
        write(tmp_path, "four")
        await host.reload()
        await until(lambda: len(renderer.rendered) == 5)
        host.texts.text(skill(host, "one"), {}, OTHER)
    assert sorted(renderer.rendered[3:]) == ["four", "two"]


async def test_a_skill_that_cannot_be_rendered_ends_no_preparation(
    host: Host, renderer: Renderer, caplog: pytest.LogCaptureFixture
) -> None:
    renderer.broken = "one"
    async with preparing(host):
        host.texts.expect(COMMON_VIEW, OTHER)
        await until(lambda: len(renderer.rendered) == 3)
    assert [record.getMessage() for record in caplog.records if record.name == activation_texts.__name__] == [
        "cannot prepare the text of the skill one"
    ]


async def test_texts_are_bounded_and_preparation_displaces_none(
    host: Host, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = len(render_activation(skill(host, "three"), {}, OTHER))
    monkeypatch.setattr(host.texts, "_free", 2 * length)
    for name in ("one", "two", "three"):
        host.texts.text(skill(host, name), {}, OTHER)
    host.texts.text(skill(host, "three"), {}, OTHER)
    assert renderer.rendered == ["one", "two", "three"]
    monkeypatch.setattr(host.texts, "_free", 0)
    async with preparing(host):
        host.texts.expect(COMMON_VIEW, OTHER)
        write(skill(host, "one").source.root, "four")
        await host.reload()
        await until(lambda: not host.texts._jobs)
    host.texts.text(skill(host, "three"), {}, OTHER)
    assert renderer.rendered == ["one", "two", "three"]
    host.texts.text(skill(host, "one"), {}, OTHER)
    assert renderer.rendered[3:] == ["one"]


async def test_clients_that_list_tools_under_many_names_are_bounded(host: Host) -> None:
    for number in range(100):
        host.texts.expect(COMMON_VIEW, Recipient(own={"Read": f"read_{number}"}))
    assert len(host.texts._clients) == activation_texts.MAX_CLIENTS
    assert len(host.texts._jobs) <= activation_texts.MAX_CLIENTS


async def test_what_a_first_activation_needs_beside_its_text_is_loaded_once_and_off_the_event_loop(
    host: Host, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[threading.Thread] = []
    monkeypatch.setattr(activation_texts, "prepare_logs", lambda: loaded.append(threading.current_thread()))
    async with preparing(host):
        assert loaded == []
        host.texts.expect(COMMON_VIEW, UNKNOWN_RECIPIENT)
        await until(lambda: len(renderer.rendered) == 3)
    assert len(loaded) == 1
    assert loaded[0] is not threading.main_thread()


async def test_what_is_loaded_later_brings_no_more_texts_than_a_client_has_prepared(
    host: Host, renderer: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activation_texts, "MAX_PREPARED", 2)
    async with preparing(host):
        host.texts.expect(COMMON_VIEW, UNKNOWN_RECIPIENT)
        await until(lambda: len(renderer.rendered) == 2)
        write(tmp_path, "four")
        await host.reload()
        # What is prepared is prepared again after a change, which comes after what was loaded.
        first = renderer.rendered[0]
        write(tmp_path, first, "Do that.")
        await host.reload()
        await until(lambda: len(renderer.rendered) == 3)
    assert renderer.rendered[2] == first
