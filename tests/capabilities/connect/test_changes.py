"""Changes of clients' files: what is refused, kept and taken back, whatever has happened to the file meanwhile."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.connect.changes import Change, apply, plan
from server.capabilities.connect.clients import known_clients

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes, owners and the home folder of POSIX")

MINE = '{\n  "theme": "dark"\n}\n'
OTHER = {"command": "/opt/other", "args": []}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def cursor(home: Path) -> Path:
    (home / ".cursor").mkdir()
    return home / ".cursor/mcp.json"


def planned(key: str = "cursor", folder: str = "/skills", **options: Any) -> Change:
    (change,) = plan([known_clients()[key]], [Path(folder)], options.pop("name", "skills"), **options)
    return change


def connect(key: str = "cursor", **options: Any) -> Change:
    return apply(planned(key, **options))


def servers(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))["mcpServers"]


def _read_only(file: Path) -> None:
    file.write_text(MINE, encoding="utf-8")
    file.chmod(0o444)


def _of_another_user(file: Path) -> None:
    file.write_text(MINE, encoding="utf-8")
    os.chown(file, 12345, 12345)


def _broken_link(file: Path) -> None:
    file.symlink_to("nowhere.json")


def _written(content: bytes) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        file.write_bytes(content)

    return write


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Path.mkdir, "not a regular file"),
        (_broken_link, "this is a link to nowhere.json; change that file by hand"),
        (_read_only, "write-protected"),
        pytest.param(
            _of_another_user,
            "belongs to another user (12345)",
            marks=pytest.mark.skipif(
                not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
            ),
        ),
        (_written(b'{\n"a": "\xff"}'), "line 2: the file is not UTF-8"),
        (_written(b'{\n "mcpServers": [1]}'), "line 2: mcpServers: expected a table, not a list"),
        (_written(b'{\n "mcpServers": {},\n "mcpServers": {}}'), "line 3, column 2: mcpServers is there twice"),
        (_written(b'{\n "a": }'), "line 2, column 7: expected a value"),
        (_written(b"{" + b" " * (16 * 1024 * 1024) + b"}"), "the limit is 16777216"),
    ],
)
def test_a_file_that_must_not_be_replaced_stays_as_it_is(cursor: Path, make: Callable[[Path], None], told: str) -> None:
    make(cursor)
    status, content = cursor.lstat(), cursor.read_bytes() if cursor.is_file() else None
    for change in (planned(), planned(remove=True)):
        if "expected a table" not in told and "twice" not in told:
            assert told in change.fault
        assert not change.differs
        assert apply(change).before == apply(change).after
    assert told in planned().fault
    assert cursor.lstat().st_ino == status.st_ino
    assert content is None or cursor.read_bytes() == content
    assert [*cursor.parent.iterdir()] == [cursor]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("remove", [False, True])
def test_a_link_of_a_project_does_not_lead_to_the_files_of_the_user(
    cursor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, remove: bool
) -> None:
    connect()
    before = cursor.read_bytes()
    project = tmp_path / "project"
    project.mkdir()
    (project / ".cursor").symlink_to(cursor.parent)
    monkeypatch.chdir(project)
    made = connect(project=True, remove=remove, folder="/other")
    assert made.fault.startswith(f"a link leads out of the project, to {cursor.parent.resolve()}")
    assert cursor.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_within_a_project_and_one_of_the_user_are_followed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, files = tmp_path / "project", tmp_path / "dotfiles"
    (project / "tools").mkdir(parents=True)
    files.mkdir()
    (project / ".cursor").symlink_to("tools")
    (home / ".cursor").symlink_to(files)
    monkeypatch.chdir(project)
    assert not connect(project=True).fault
    assert not connect().fault
    assert (project / "tools/mcp.json").exists()
    assert (files / "mcp.json").exists()


def test_what_cannot_be_written_is_told(home: Path) -> None:
    (home / ".cursor").write_text("a file where a folder is expected", encoding="utf-8")
    assert ".cursor" in connect().fault


@pytest.mark.parametrize(
    "content", ["", "{}", MINE, MINE.replace("\n", "\r\n"), "\ufeff" + MINE, '{"mcpServers": {}}\n']
)
def test_a_removal_leaves_the_bytes_that_were_there(cursor: Path, content: str) -> None:
    cursor.write_bytes(content.encode("utf-8"))
    cursor.chmod(0o640)
    assert not connect().fault
    assert "skills" in cursor.read_text(encoding="utf-8-sig")
    assert cursor.stat().st_mode & 0o777 == 0o640
    assert not connect(remove=True).fault
    assert cursor.read_bytes() == content.encode("utf-8")
    assert [*cursor.parent.iterdir()] == [cursor]


@pytest.mark.parametrize("key", [key for key, client in known_clients().items() if client.user])
def test_what_was_not_there_is_gone_again(home: Path, key: str) -> None:
    change = connect(key)
    assert change.file.stat().st_mode & 0o777 == 0o600
    assert not connect(key, remove=True).fault
    assert [*home.iterdir()] == []


def test_what_the_client_wrote_meanwhile_stays(home: Path, cursor: Path) -> None:
    connect("qwen-code")
    qwen = home / ".qwen/settings.json"
    qwen.write_text(json.dumps(json.loads(qwen.read_text(encoding="utf-8")) | {"$version": 4}), encoding="utf-8")
    connect("qwen-code", remove=True)
    assert json.loads(qwen.read_text(encoding="utf-8")) == {"$version": 4}
    cursor.write_text(MINE, encoding="utf-8")
    connect()
    cursor.write_text(cursor.read_text(encoding="utf-8").replace("dark", "light"), encoding="utf-8")
    connect(remove=True)
    assert cursor.read_text(encoding="utf-8") == MINE.replace("dark", "light")
    assert [*cursor.parent.iterdir()] == [cursor]


def test_an_entry_that_was_replaced_comes_back(cursor: Path) -> None:
    before = json.dumps({"mcpServers": {"skills": OTHER, "b": OTHER}}, indent=2)
    cursor.write_text(before, encoding="utf-8")
    change = planned()
    assert "skills is there already, with other settings: this replaces it" in change.text()
    apply(change)
    assert servers(cursor)["skills"] != OTHER
    connect(remove=True)
    assert cursor.read_text(encoding="utf-8") == before


def test_a_program_that_is_not_skillserve_is_not_removed(cursor: Path) -> None:
    before = json.dumps({"mcpServers": {"skills": OTHER}})
    cursor.write_text(before, encoding="utf-8")
    assert "starts another program there" in connect(remove=True).fault
    assert cursor.read_text(encoding="utf-8") == before


def test_servers_of_two_names_are_removed_one_by_one(cursor: Path) -> None:
    cursor.write_text(MINE, encoding="utf-8")
    connect()
    connect(name="more")
    connect(remove=True)
    assert [*servers(cursor)] == ["more"]
    connect(name="more", remove=True)
    assert cursor.read_text(encoding="utf-8") == MINE


def test_a_copy_that_an_earlier_connection_left_is_not_taken_for_the_present_file(cursor: Path) -> None:
    cursor.write_text(MINE, encoding="utf-8")
    connect()
    cursor.unlink()
    connect()
    connect(remove=True)
    assert not cursor.exists()


def test_of_changes_at_once_none_is_lost(cursor: Path) -> None:
    cursor.write_text(MINE, encoding="utf-8")
    names = [f"skills-{number}" for number in range(8)]
    changes = [planned(name=name) for name in names]
    with ThreadPoolExecutor(8) as threads:
        made = [*threads.map(apply, changes)]
    assert [each.fault for each in made] == [""] * 8
    assert sorted(servers(cursor)) == names


def test_a_change_is_made_in_the_file_as_it_is_by_then(cursor: Path) -> None:
    change = planned()
    cursor.write_text(MINE, encoding="utf-8")
    apply(change)
    assert json.loads(cursor.read_text(encoding="utf-8"))["theme"] == "dark"


def test_the_difference_shows_no_line_of_another_server(cursor: Path) -> None:
    other = {"command": "/opt/other", "env": {"TOKEN": "secret"}}
    cursor.write_text(json.dumps({"mcpServers": {"a": other}}, indent=2), encoding="utf-8")
    assert "secret" not in planned().text()
    connect()
    assert "secret" not in planned(remove=True).text()


def test_control_characters_of_a_file_do_not_reach_the_terminal(cursor: Path) -> None:
    cursor.write_text('{\n  "a": "x\\u001b" // \x1b]0;owned\x07 \u202e\n}\n', encoding="utf-8")
    shown = planned().text()
    assert all(line.isprintable() for line in shown.splitlines())
    assert "\\x1b]0;owned" in shown


def test_the_token_of_a_header_is_told_and_kept_private(cursor: Path) -> None:
    address: dict[str, Any] = {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer t0ken"}}
    cursor.write_text(MINE, encoding="utf-8")
    cursor.chmod(0o644)
    shown = planned(**address).text()
    assert "the value of Authorization will be in this file as plain text" in shown
    assert "other users of this machine may open this file" in shown
    connect(**address)
    connect(**address | {"headers": {"Authorization": "Bearer other"}})
    copies = [each for each in cursor.parent.iterdir() if each != cursor]
    assert [each.stat().st_mode & 0o777 for each in copies] == [0o600]
    connect(remove=True)
    assert cursor.read_text(encoding="utf-8") == MINE
    project = planned("cursor", project=True, **address)
    assert project.file == Path.cwd() / ".cursor/mcp.json"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("claude-code", {"headers": {"Authorization": "Bearer ${TOKEN}"}}),
        ("cursor", {"headers": {"Authorization": "Bearer ${env:TOKEN}"}}),
        ("opencode", {"headers": {"Authorization": "Bearer {env:TOKEN}"}}),
        ("codex", {"bearer_token_env_var": "TOKEN"}),
    ],
)
def test_a_variable_is_written_as_the_client_reads_it(home: Path, key: str, expected: dict[str, Any]) -> None:
    change = planned(key, url="http://h/mcp", headers={"Authorization": "Bearer ${TOKEN}"})
    entry = change.entry or {}
    assert {name: entry[name] for name in expected} == expected
    assert "plain text" not in change.text()
    assert str(home) in str(change.file)


def test_a_variable_is_refused_where_the_client_reads_none(home: Path) -> None:
    change = planned("zed", url="http://h/mcp", headers={"Authorization": "Bearer ${TOKEN}"})
    assert "Zed reads no environment variables in headers (TOKEN)" in change.fault
    assert [*home.iterdir()] == []


def test_codex_keeps_variables_and_values_of_headers_apart(home: Path) -> None:
    change = planned("codex", url="http://h/mcp", headers={"X-A": "${A}", "X-B": "b", "X-C": "c ${C}"})
    assert "C" in change.fault
    entry = dict(planned("codex", url="http://h/mcp", headers={"X-A": "${A}", "X-B": "b"}).entry or {})
    assert entry.pop("required")
    assert entry.pop("startup_timeout_sec")
    assert entry == {"url": "http://h/mcp", "http_headers": {"X-B": "b"}, "env_http_headers": {"X-A": "A"}}
    assert [*home.iterdir()] == []


def test_the_other_name_of_a_file_counts_if_it_is_there(home: Path) -> None:
    folder = home / ".config/opencode"
    folder.mkdir(parents=True)
    assert planned("opencode").file == folder / "opencode.json"
    (folder / "opencode.jsonc").write_text("{} // mine\n", encoding="utf-8")
    assert planned("opencode").file == folder / "opencode.jsonc"


def test_a_client_without_such_a_file_is_told(home: Path) -> None:
    assert "reads no file of a project" in planned("windsurf", project=True).fault
    assert "add --project" in planned("fast-agent").fault
    assert [*home.iterdir()] == []
