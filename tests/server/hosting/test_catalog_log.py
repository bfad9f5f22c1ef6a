"""The log warns of invalid skills and of skills with one name, and names every place."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from server.hosting.catalog_log import command_for, log_catalog, log_change, notices_of
from server.logs.json_logs import JsonHandler
from server.logs.text_logs import TextHandler
from skills_core import Environment, Library, explicit_sources
from tests.conftest import write_skill

if TYPE_CHECKING:
    from collections.abc import Callable
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
    wrong = [message.partition(", line ") for message in caplog.messages]
    assert [name for name, _, _ in wrong] == ["bad is broken", "worse is broken"]
    assert all("description is missing" in why for _, _, why in wrong)


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


def edit(folder: Path, old: str, new: str) -> None:
    main = folder / "SKILL.md"
    main.write_text(main.read_text("utf-8").replace(old, new), "utf-8")


CHANGES: list[tuple[str, Callable[[Path], object], list[str]]] = [
    ("a description", lambda at: edit(at, "Does a thing", "Does two"), ["standup changed: description"]),
    ("instructions", lambda at: edit(at, "Do the thing.", "Do both."), ["standup changed: instructions"]),
    ("a field", lambda at: edit(at, "license: MIT", "license: ISC"), ["standup changed: license"]),
    ("a space", lambda at: edit(at, "license: MIT", "license:  MIT"), ["standup changed: spelling of its frontmatter"]),
    ("files", lambda at: write_files(at, 5), ["standup changed: f0 added, f1 added, f2 added, 2 more files"]),
    ("an edited file", lambda at: (at / "run.py").write_text("other"), ["standup changed: run.py"]),
    ("a file that is gone", lambda at: (at / "run.py").unlink(), ["standup changed: run.py removed"]),
    (
        "two things",
        lambda at: edit(at, "thing is to be done.\nlicense: MIT", "need arises."),
        ["standup changed: description, license"],
    ),
    ("a fault", lambda at: edit(at, "description: Does", "description:\nno:"), ["standup is broken, line 3: "]),
    ("no name", lambda at: edit(at, "name: standup\ndescription", "\x1bname: x\ny"), ["standup is broken"]),
    ("a move", lambda at: at.rename(at.parent / "daily"), ["standup, line 2: name", "standup moved to "]),
    (
        "a new name",
        lambda at: edit(at, "name: standup", "name: daily"),
        ["daily, line 2: ", "standup renamed to daily"],
    ),
]


def write_files(folder: Path, number: int) -> None:
    for each in range(number):
        (folder / f"f{each}").write_text("text")


@pytest.mark.parametrize(("change", "expected"), [each[1:] for each in CHANGES], ids=[each[0] for each in CHANGES])
def test_a_line_names_the_skill_and_the_cause(
    change: Callable[[Path], object], expected: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    folder = write_skill(tmp_path, "standup", fields="license: MIT", files={"run.py": b"print()"})
    library = library_of(tmp_path)
    change(folder)
    log_change(library.reload())
    assert len(caplog.messages) == len(expected)
    assert all(map(str.startswith, caplog.messages, expected)), caplog.messages
    assert "sha256" not in caplog.text


def test_lines_say_that_a_skill_is_added_works_again_and_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    library = library_of(tmp_path)
    folder = write_skill(tmp_path, "standup")
    log_change(library.reload())
    edit(folder, "---", "")
    log_change(library.reload())
    write_skill(tmp_path, "standup")
    log_change(library.reload())
    (folder / "SKILL.md").unlink()
    folder.rmdir()
    log_change(library.reload())
    assert [caplog.messages[0], *caplog.messages[2:]] == ["standup added", "standup works again", "standup removed"]
    assert caplog.messages[1].startswith("standup is broken, line 1: ")


def test_a_burst_is_cut_in_text_with_what_is_wrong_first_and_whole_in_json(tmp_path: Path) -> None:
    text, lines = TextHandler(), JsonHandler()
    handlers: list[logging.StreamHandler[io.StringIO]] = [text, lines]
    log = logging.getLogger("server.hosting.catalog_log")
    log.setLevel(logging.INFO)
    for handler in handlers:
        handler.setStream(io.StringIO())
        log.addHandler(handler)
    try:
        library = library_of(tmp_path)
        for number in range(1000):
            write_skill(tmp_path, f"s{number}")
        write_skill(tmp_path, "z-bad", description="")
        log_change(library.reload())
    finally:
        for handler in handlers:
            log.removeHandler(handler)
    shown = text.stream.getvalue().splitlines()
    assert len(shown) < 30
    assert "z-bad is broken, line " in shown[0]
    assert shown[-1].endswith(f"more: skillserve status {tmp_path}")
    assert "sha256" not in text.stream.getvalue()
    objects = lines.stream.getvalue().splitlines()
    assert sum('"digest":"sha256:' in each for each in objects) == 1001
    assert not any("skillserve status" in each for each in objects)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
def test_a_link_is_mentioned_once_with_the_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_skill(tmp_path / "elsewhere", "review")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "first").symlink_to(tmp_path / "elsewhere" / "review")
    library = library_of(tmp_path / "root")
    log_catalog(library.catalog)
    [message] = caplog.messages
    assert message.startswith(f"skipped {tmp_path}/root/first: symbolic links are not followed; ")
    (tmp_path / "root" / "second").symlink_to(tmp_path / "elsewhere" / "review")
    log_change(library.reload())
    log_change(library.reload())
    assert [each.partition(": ")[0] for each in caplog.messages[1:]] == [f"skipped {tmp_path}/root/second"]


def test_notices_count_what_is_wrong_and_name_the_command_that_shows_it(tmp_path: Path) -> None:
    root = tmp_path / "my skills"
    write_skill(root, "good")
    assert [*notices_of(library_of(root).catalog)] == []
    write_skill(root, "odd", fields="name2: x").rename(root / "other")
    write_skill(root, "bad", description="")
    notices = dict(notices_of(library_of(root).catalog))
    assert notices["not served"] == "1 invalid"
    assert int(notices["warnings"]) > 0
    assert notices["see"] == f"skillserve status '{root}'"
    assert command_for(library_of(root, root.parent).catalog, "connect") == "skillserve connect DIR..."


def test_where_nothing_is_found_the_notices_say_where_was_looked_and_how_to_begin(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    notices = dict(notices_of(library_of(tmp_path / "none").catalog))
    assert notices == {
        "looked in": f"{tmp_path}/none, and found no skill",
        "begin": f"skillserve init my-skill --to {tmp_path}/none",
    }


def test_names_of_skills_control_no_terminal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    library = library_of(tmp_path)
    folder = write_skill(tmp_path, "x")
    edit(folder, "name: x", 'name: "x\\e[2Jy"\n"f\\e[31m": 1')
    (folder / "f\x1b]0;t\x07").write_text("x")
    log_change(library.reload())
    edit(folder, "31m", "32m")
    os.truncate(folder / "f\x1b]0;t\x07", 0)
    log_change(library.reload())
    assert len(caplog.messages) > 1
    assert all(message.isprintable() for message in caplog.messages)
