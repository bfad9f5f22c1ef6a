"""A library that is being loaded: requests wait while it can be whole soon, and a failure is reported and retried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from server.config.machine import current_environment
from server.config.settings.model import Settings
from server.hosting.host import Host
from server.hosting.views import COMMON_VIEW
from server.limits.pacing import Backoff
from server.listing.catalog_texts import loading_text
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Change, Library, Progress
from tests.conftest import write_skill


def library_at(root: Path) -> Library:
    write_skill(root, "a")
    write_skill(root, "b")
    return Library(explicit_sources([root]), current_environment, later=True)


@pytest.mark.parametrize(("share", "waits"), [(0.0, True), (0.9, True), (0.01, False)])
async def test_requests_wait_for_what_can_be_whole_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, *, waits: bool
) -> None:
    monkeypatch.setattr(Library, "progress", Progress(tmp_path, share, seconds=0.5))
    assert Host(library_at(tmp_path), Settings()).is_opening is waits


async def test_requests_do_not_wait_for_a_library_that_is_whole(tmp_path: Path) -> None:
    library = library_at(tmp_path)
    library.load()
    host = Host(library, Settings())
    assert not host.is_opening
    await host.opened()


async def test_requests_stop_waiting_once_the_load_is_seen_to_take_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(library_at(tmp_path), Settings())
    monkeypatch.setattr("server.hosting.host._FIRST_PART_SECONDS", 0.0)
    load, opening = Library.load, list[bool]()

    def loaded(library: Library, *args: float | Callable[[], None]) -> Change:
        opening.append(host.is_opening)
        monkeypatch.setattr(Library, "progress", Progress(tmp_path, 0.01, seconds=9))
        return load(library, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Library, "load", loaded)
    await host.load()
    assert opening[:2] == [True, False]


async def test_a_load_that_fails_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(library_at(tmp_path), Settings(), backoff=Backoff(first=0.0, limit=0.0))
    load, faults, texts = Library.load, list[str](), list[str]()

    def loaded(library: Library, *args: float | Callable[[], None]) -> Change:
        catalog = host.view_called(COMMON_VIEW).catalog
        faults.append(catalog.sources[0].fault)
        texts.append(loading_text(catalog))
        if len(faults) < 3:
            raise RuntimeError("unforeseen")
        return load(library, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Library, "load", loaded)
    await host.load()
    assert faults == ["", *["RuntimeError: unforeseen"] * 2]
    assert ["loading the skills failed (none so far) and is retried" in text for text in texts] == [False, True, True]
    assert "unforeseen" not in texts[1]
    assert [record.exc_info is not None for record in caplog.records if record.levelname == "ERROR"] == [True] * 2
    assert host.library.is_complete
    assert [skill.name for skill in host.everything.active] == ["a", "b"]
    assert not host.everything.sources[0].fault


@pytest.mark.parametrize(
    ("publishing", "longest"),
    [(0.0, 60.0), (10.0, 60.0), (100.0, 500.0)],
)
async def test_a_part_is_served_within_a_minute_unless_serving_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publishing: float, longest: float
) -> None:
    """Parts grow until a minute, or until serving them takes a sixth of the time."""
    host = Host(library_at(tmp_path), Settings())
    load, asked, clock = Library.load, list[float](), [0.0]

    def loaded(library: Library, seconds: float, pause: Callable[[], None]) -> Change:
        asked.append(seconds)
        clock[0] += seconds + publishing
        monkeypatch.setattr(Library, "seconds_loaded", library.seconds_loaded + seconds)
        if len(asked) == 20:
            return load(library, seconds, pause)
        return Change(library.catalog, library.catalog)

    monkeypatch.setattr(Library, "load", loaded)
    monkeypatch.setattr("server.hosting.host.monotonic", lambda: clock[0])
    await host.load()
    assert asked[:4] == [0.5, 1.0, 2.0, 4.0]
    assert asked[-1] == max(asked) == pytest.approx(longest)
