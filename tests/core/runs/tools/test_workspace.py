"""The tools of a workspace through the gate, on real files: what they do, and where they refuse to go."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from skills_core.disk.files import Location
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError
from skills_core.guard.tool import CallDecision
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.tools.commands import workspace_tools

HIDDEN = "the secret"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace, beside which lies what must not be reached."""
    (tmp_path / "secret.txt").write_text(HIDDEN)
    root = tmp_path / "work"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_text("import os\nprint('hello')\n")
    (root / "src" / "deep" / "b.py").write_text("def hello(): ...\n")
    (root / "notes.md").write_text("Hello\n")
    return root


@pytest.fixture
def call(work: Path, make_gate: Any) -> Any:
    """Call a tool of the workspace; returns what became of the call."""
    gate = make_gate(*workspace_tools(work, WorkspaceTool, {"PATH": os.environ["PATH"]}))

    async def run(name: str, **arguments: Any) -> Any:
        return await gate.call(name, arguments, 1)

    return run


async def test_a_file_is_read_as_it_is(call: Any) -> None:
    assert (await call("read_file", path="src/a.py")).text == "import os\nprint('hello')\n"
    assert (await call("read_file", path="./src//a.py")).decision is CallDecision.DONE


async def test_parts_of_a_long_file_are_read_with_a_note_where_to_continue(work: Path, call: Any) -> None:
    (work / "long").write_text("".join(f"line {n}\n" for n in range(1, 2501)))
    text = (await call("read_file", path="long")).text
    assert text.startswith("line 1\n")
    assert text.endswith("[lines 1 to 2000 of 2500; go on with first_line 2001]")
    text = (await call("read_file", path="long", first_line=2499, lines=10)).text
    assert text == "line 2499\nline 2500\n\n[lines 2499 to 2500 of 2500]"
    assert (await call("read_file", path="long", first_line=9999)).text == "long: the file has 2500 lines"


async def test_a_binary_file_is_an_error(work: Path, call: Any) -> None:
    (work / "image").write_bytes(b"\x89PNG\x00\x01")
    result = await call("read_file", path="image")
    assert (result.decision, result.text) == (
        CallDecision.FAILED,
        "image: not UTF-8 text, but 6 bytes of other data",
    )


async def test_a_file_is_written_with_the_folders_that_it_needs(work: Path, call: Any) -> None:
    assert (await call("write_file", path="new/er/x.txt", content="é\n")).text == "Created new/er/x.txt, 3 bytes."
    assert (work / "new" / "er" / "x.txt").read_text(encoding="utf-8") == "é\n"
    assert (await call("write_file", path="new/er/x.txt", content="")).text == "Wrote new/er/x.txt, 0 bytes."
    assert [path.name for path in (work / "new" / "er").iterdir()] == ["x.txt"]


async def test_one_place_of_a_file_is_replaced_where_it_is_the_only_one(work: Path, call: Any) -> None:
    await call("write_file", path="src/a.py", content="sys", replace="os")
    assert (work / "src" / "a.py").read_text() == "import sys\nprint('hello')\n"
    result = await call("write_file", path="src/a.py", content="x", replace="s")
    assert (result.decision, result.text) == (
        CallDecision.FAILED,
        "src/a.py: the text to replace occurs 2 times, not once",
    )


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
async def test_a_rewritten_file_keeps_its_mode_and_does_not_change_hard_links(work: Path, call: Any) -> None:
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o750)
    outside = work.parent / "other-name"
    os.link(work / "run.sh", outside)
    await call("write_file", path="run.sh", content="changed")
    assert stat.S_IMODE((work / "run.sh").stat().st_mode) == 0o750
    assert outside.read_text() == "#!/bin/sh\n"


async def test_a_folder_is_listed_and_files_are_found_by_a_pattern(work: Path, call: Any) -> None:
    (work / ".gitignore").write_text("deep/\n")
    assert (await call("list_directory")).text == "src/\n.gitignore\nnotes.md"
    assert (await call("list_directory", path="src")).text == "deep/\na.py"
    assert (await call("list_directory", pattern="**/*.py")).text == "src/a.py"
    assert (await call("list_directory", path="none")).text == "none: no such file or directory"
    assert (await call("list_directory", pattern="../x")).decision is CallDecision.FAILED


async def test_lines_are_found_with_their_files_and_numbers(work: Path, call: Any) -> None:
    (work / "binary").write_bytes(b"hello\0")
    assert (await call("grep", pattern="(?i)^hello|'hello'")).text == (
        "notes.md:1: Hello\nsrc/a.py:2: print('hello')\n[1 files were not searched: binary, too large or unreadable]"
    )
    assert (await call("grep", pattern="hello", path="src/deep")).text == "src/deep/b.py:1: def hello(): ..."
    assert (await call("grep", pattern="hello", path="src/a.py")).text == "src/a.py:2: print('hello')"
    assert (await call("grep", pattern="hello", files="*.md")).text == "No line matches the pattern."
    assert "cannot be used" in (await call("grep", pattern="(?=x)")).text


async def test_a_search_is_bounded_in_what_it_shows_and_reads(work: Path, call: Any) -> None:
    (work / "many").write_text("x" * 1000 + "\n" + "x\n" * 1000)
    (work / "huge").touch()
    os.truncate(work / "huge", 5 * 1024 * 1024)
    lines = (await call("grep", pattern="x", path="many")).text.splitlines()
    assert len(lines) == 301
    assert lines[0].endswith("x…")
    assert lines[-1] == "[only the first 300 lines are shown]"
    assert "1 files were not searched" in (await call("grep", pattern="nothing of it", files="huge")).text


async def test_ignored_files_and_git_folders_are_not_searched(work: Path, call: Any) -> None:
    (work / ".gitignore").write_text("*.log\n")
    (work / "a.log").write_text("hello")
    (work / ".git").mkdir()
    (work / ".git" / "config").write_text("hello")
    assert (await call("grep", pattern="hello", files="*.log")).text == "No line matches the pattern."
    assert ".git/" not in (await call("grep", pattern="hello")).text


def _links(work: Path) -> None:
    (work / "link.txt").symlink_to(work.parent / "secret.txt")
    (work / "out").symlink_to(work.parent)
    (work / "inner").symlink_to(work / "src")
    (work / "dangling").symlink_to(work.parent / "made.txt")


ESCAPES = [
    "../secret.txt",
    "src/../../secret.txt",
    "link.txt",
    "out/secret.txt",
    "inner/a.py",
    "dangling",
    "/etc/passwd",
    "~/x",
    "src/a.py/x",
    "\0",
    "src/\0/../../secret.txt",
    "..",
    "",
    ".",
]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
@pytest.mark.parametrize("path", ESCAPES)
async def test_no_path_leads_out_of_the_workspace(path: str, work: Path, call: Any) -> None:
    _links(work)
    before = sorted(work.parent.iterdir())
    read = await call("read_file", path=path)
    assert (read.decision, HIDDEN in read.text) == (CallDecision.FAILED, False)
    written = await call("write_file", path=path, content="owned")
    assert written.decision is CallDecision.FAILED
    found = await call("grep", pattern="secret|root:", path=path)
    assert HIDDEN not in found.text
    assert "root:" not in found.text
    assert (work.parent / "secret.txt").read_text() == HIDDEN
    assert sorted(work.parent.iterdir()) == before


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
async def test_links_are_listed_and_never_followed(work: Path, call: Any) -> None:
    _links(work)
    assert "out (a link, not followed)" in (await call("list_directory")).text
    assert (await call("list_directory", path="out")).decision is CallDecision.FAILED
    assert "secret" not in (await call("list_directory", pattern="**")).text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
async def test_special_files_are_neither_read_nor_written(work: Path, call: Any) -> None:
    os.mkfifo(work / "fifo")
    assert (await call("read_file", path="fifo")).text == "fifo: this is not a regular file"
    assert (await call("write_file", path="fifo", content="x")).text == "fifo: this is not a regular file"
    assert (await call("write_file", path="src", content="x")).text == "src: this is not a regular file"
    assert stat.S_ISFIFO((work / "fifo").stat().st_mode)
    assert (await call("grep", pattern="x")).decision is CallDecision.DONE


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/pre-commit",
        "sub/.git/config",
        ".GIT/config",
        "git~1/x",
        ".git. /x",
        ".g\u200cit/config",
    ],
)
async def test_files_in_git_folders_are_not_written(path: str, work: Path, call: Any) -> None:
    assert "files within .git are not written" in (await call("write_file", path=path, content="x")).text
    assert sorted(entry.name for entry in work.iterdir()) == ["notes.md", "src"]


async def test_a_file_that_is_too_large_is_not_written(work: Path, call: Any) -> None:
    result = await call("write_file", path="x", content="x" * (4 * 1024 * 1024 + 1))
    assert result.decision is CallDecision.FAILED
    assert not (work / "x").exists()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_folder_that_is_swapped_for_a_link_while_writing_never_gets_the_file_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    (root / "a").mkdir(parents=True)
    outside.mkdir()
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            shutil.rmtree(root / "a", ignore_errors=True)
            with suppress(OSError):
                (root / "a").symlink_to(outside)
                (root / "a").unlink()
                (root / "a").mkdir()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(400):
            try:
                write_file(Location(root, "a/x"), b"content")
            except FileRefusedError:
                continue
    finally:
        done.set()
        thread.join()
    assert list(outside.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="folders need no handles there in any case")
def test_without_directory_handles_the_same_paths_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skills_core.disk.files._HANDLES", False)
    (tmp_path / "secret").mkdir()
    root = tmp_path / "work"
    root.mkdir()
    (root / "out").symlink_to(tmp_path / "secret")
    for path in ("out/x", "../secret/x", "a/../../x", "", "out"):
        with pytest.raises(FileRefusedError):
            write_file(Location(root, path), b"x")
    assert write_file(Location(root, "new/x"), b"1")
    assert not write_file(Location(root, "new/x"), b"2")
    assert (root / "new" / "x").read_bytes() == b"2"
    assert list((tmp_path / "secret").iterdir()) == []


@pytest.fixture
def home(work: Path) -> Path:
    """A workspace with the state and the settings in it, of which the latter do not exist yet."""
    (work / ".local/state/own/skills").mkdir(parents=True)
    (work / ".local/state/own/skills/schedule.json").write_text(HIDDEN)
    (work / ".local/state/other").mkdir()
    (work / ".local/state/other/file").write_text("shown")
    (work / "servers.json").write_text(HIDDEN)
    return work


@pytest.fixture
def call_at_home(home: Path, make_gate: Any) -> Any:
    private = [home / ".local/state/own", home / ".config/own", home / "servers.json", home.parent / "elsewhere"]
    gate = make_gate(*workspace_tools(home, WorkspaceTool, {"PATH": os.environ["PATH"]}, private=private))

    async def run(name: str, **arguments: Any) -> Any:
        return await gate.call(name, arguments, 1)

    return run


@pytest.mark.parametrize(
    "path",
    [
        ".local/state/own/skills/schedule.json",
        ".local//state/./own/skills/schedule.json",
        ".LOCAL/State/own/skills/schedule.json",
        ".local/state/own",
        ".config/own/settings.toml",
        ".config/OWN./settings.toml",
        "servers.json",
    ],
)
async def test_no_tool_reads_or_writes_what_is_private(call_at_home: Any, home: Path, path: str) -> None:
    before = sorted((each, each.read_text() if each.is_file() else "") for each in home.rglob("*"))
    for name, arguments in (
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("list_directory", {}),
        ("grep", {"pattern": "secret"}),
    ):
        answer = await call_at_home(name, path=path, **arguments)
        assert answer.decision is CallDecision.FAILED
        assert "are private" in answer.text
    assert sorted((each, each.read_text() if each.is_file() else "") for each in home.rglob("*")) == before


async def test_lists_and_searches_leave_out_what_is_private(call_at_home: Any) -> None:
    assert HIDDEN not in (await call_at_home("grep", pattern=".")).text
    found = (await call_at_home("list_directory", pattern="**/*")).text
    assert ("schedule.json" in found, "servers.json" in found, ".local/state/other/file" in found) == (0, 0, 1)
    assert (await call_at_home("list_directory", path=".local/state")).text == "other/"
    assert (await call_at_home("read_file", path=".local/state/other/file")).text == "shown"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_a_diff_leaves_out_what_is_private(call_at_home: Any, home: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *arguments], cwd=home, check=True, capture_output=True)

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    for path in (".local/state/own/skills/schedule.json", "servers.json", "notes.md"):
        (home / path).write_text("changed")
    for arguments in ({}, {"path": ".local"}, {"revision": "HEAD"}):
        text = (await call_at_home("git_diff", **arguments)).text
        assert ("schedule.json" in text, "servers.json" in text) == (False, False)
        assert ("notes.md" in text) == ("path" not in arguments)
    assert "are private" in (await call_at_home("git_diff", path="servers.json")).text
