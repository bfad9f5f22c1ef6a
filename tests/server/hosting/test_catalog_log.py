"""The log warns of invalid skills and of skills with one name, and names every place."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from server.hosting.catalog_log import log_catalog, log_change
from skills_core import Environment, Library, explicit_sources
from tests.conftest import write_skill

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def library_of(*roots: Path) -> Library:
    return Library(explicit_sources(roots), lambda: Environment(os="linux", has_bin=lambda _: False))


def test_a_shadowed_skill_is_warned_of_with_both_places(tmp_path: Path) -> None:
    for root in ("mine", "theirs"):
        write_skill(tmp_path / root, "review")
    command = [sys.executable, "-m", "server", "serve", str(tmp_path / "mine"), str(tmp_path / "theirs")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60)
    [line] = [line for line in done.stderr.splitlines() if "named review" in line]
    assert "WARNING" in line
    assert f"2 skills are named review: {tmp_path}/mine/review (active as review), " in line
    assert line.endswith(f"{tmp_path}/theirs/review (shadowed)")


def test_two_skills_of_one_source_are_warned_of_with_their_full_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill(tmp_path / "a", "twin")
    write_skill(tmp_path / "b", "twin", fields="when: {requires: {bins: [absent]}}")
    log_catalog(library_of(tmp_path).catalog)
    assert caplog.messages == [
        f"2 skills are named twin: {tmp_path}/a/twin (active as a/twin), {tmp_path}/b/twin (excluded)"
    ]


def test_a_reload_warns_only_of_what_is_new(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_skill(tmp_path / "a", "twin")
    write_skill(tmp_path / "b", "twin")
    library = library_of(tmp_path)
    write_skill(tmp_path / "a", "other")
    change = library.reload()
    log_change(change)
    assert caplog.messages == []
    write_skill(tmp_path / "b", "other")
    change = library.reload()
    log_change(change)
    [message] = caplog.messages
    assert message.startswith("2 skills are named other: ")


def test_a_warning_of_many_skills_is_short_and_holds_no_control_characters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(15):
        write_skill(tmp_path / f"p\x1b[31m{number:02}", "twin")
    log_catalog(library_of(tmp_path).catalog)
    [message] = caplog.messages
    assert message.startswith("15 skills are named twin: ")
    assert message.endswith(", 5 more")
    assert message.isprintable()


def test_an_invalid_skill_is_warned_of_at_the_start_and_when_it_becomes_invalid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill(tmp_path, "bad", description="")
    library = library_of(tmp_path)
    log_catalog(library.catalog)
    write_skill(tmp_path, "worse", description="")
    log_change(library.reload())
    assert [message.partition(" sha256:")[0] for message in caplog.messages] == ["invalid: bad", "invalid: worse"]
    assert all("missing_description: description is missing" in message for message in caplog.messages)


def test_a_flood_of_collisions_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(60):
        write_skill(tmp_path / "a", f"s{number}")
        write_skill(tmp_path / "b", f"s{number}")
    log_catalog(library_of(tmp_path).catalog)
    assert len(caplog.messages) == 51
    assert caplog.messages[-1] == "10 more names are those of several skills"


def test_a_folder_of_skills_that_vanishes_is_warned_of_once_and_its_return_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    root, away = tmp_path / "share", tmp_path / "away"
    write_skill(root, "review")
    library = library_of(root)
    root.rename(away)
    log_change(library.reload())
    [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.startswith(f"the folder {root} is gone: all of its skills are removed. If it is on a share")
    log_change(library.reload())
    away.rename(root)
    log_change(library.reload())
    folders = [message for message in caplog.messages if message.startswith("the folder")]
    assert folders[1:] == [f"the folder {root} is there again"]
