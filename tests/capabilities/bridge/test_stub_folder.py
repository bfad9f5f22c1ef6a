"""Stubs in a client's folder: what is written, replaced, removed and left alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from server.capabilities.bridge.stub_folder import sync_stubs
from skills_core.format.stubs import render_stub
from tests.permissions import CAN_BE_BOUND, bound_by_permissions

SERVER = "skills"
FOREIGN = "---\nname: mine\ndescription: Mine.\n---\n\nBody.\n"


def stub(name: str, description: str = "Does it. Use when it is to be done.", server: str = SERVER) -> str:
    return render_stub(name, name, description, server=server, called=f"mcp__{server}__activate_skill")


def stubs(*names: str, server: str = SERVER) -> dict[str, str]:
    return {name: stub(name, server=server) for name in names}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home/.claude/skills"


def content(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


def test_stubs_follow_what_is_wanted_and_go_without_a_trace(folder: Path) -> None:
    assert sync_stubs(folder, stubs("a", "b"), SERVER).written == ["a", "b"]
    assert content(folder) == {f"{name}/SKILL.md": text for name, text in stubs("a", "b").items()}
    report = sync_stubs(folder, {"b": stub("b", "Other."), **stubs("c")}, SERVER)
    assert (report.written, report.removed, report.current) == (["b", "c"], ["a"], 0)
    assert content(folder) == {"b/SKILL.md": stub("b", "Other."), "c/SKILL.md": stub("c")}
    report = sync_stubs(folder, {"b": stub("b", "Other."), **stubs("c")}, SERVER)
    assert (report.differs, report.current) == (False, 2)
    assert sync_stubs(folder, {}, SERVER).removed == ["b", "c"]
    assert not folder.parent.exists()


def test_what_a_person_wrote_is_left_alone_and_reported(folder: Path) -> None:
    (folder / "mine").mkdir(parents=True)
    (folder / "mine/SKILL.md").write_text(FOREIGN)
    (folder / "Empty").write_text("a file")
    (folder / "linked").symlink_to(folder / "mine")
    report = sync_stubs(folder, stubs("mine", "empty", "linked", "new"), SERVER)
    assert report.written == ["new"]
    assert {*report.kept} == {"mine", "empty", "linked"}
    assert (folder / "mine/SKILL.md").read_text() == FOREIGN
    assert sync_stubs(folder, {}, SERVER).removed == ["new"]
    assert sorted(each.name for each in folder.iterdir()) == ["Empty", "linked", "mine"]


def test_an_edited_stub_is_kept_and_reported(folder: Path) -> None:
    sync_stubs(folder, stubs("a"), SERVER)
    edited = stub("a") + "More.\n"
    (folder / "a/SKILL.md").write_text(edited)
    for wanted in ({"a": stub("a", "New.")}, {}):
        report = sync_stubs(folder, wanted, SERVER)
        assert report.kept == {"a": "this stub was edited"}
        assert (folder / "a/SKILL.md").read_text() == edited


def test_files_that_somebody_put_beside_a_stub_stay(folder: Path) -> None:
    sync_stubs(folder, stubs("a"), SERVER)
    (folder / "a/notes.md").write_text("mine")
    report = sync_stubs(folder, {}, SERVER)
    assert report.removed == ["a"]
    assert report.kept
    assert content(folder) == {"a/notes.md": "mine"}


def test_two_servers_share_a_folder(folder: Path) -> None:
    sync_stubs(folder, stubs("a", "b"), SERVER)
    report = sync_stubs(folder, stubs("b", "c", server="team"), "team")
    assert (report.written, report.kept) == (["c"], {"b": "the server skills has a stub of this name"})
    assert sync_stubs(folder, {}, SERVER).removed == ["a", "b"]
    assert content(folder) == {"c/SKILL.md": stub("c", server="team")}


def test_what_a_killed_process_leaves_is_cleaned_up(folder: Path) -> None:
    """It may have died between any two steps: before a folder has its name, within a file, and during a removal."""
    sync_stubs(folder, stubs("a"), SERVER)
    for name in ("full", "empty"):
        (folder / f".skillserve-stub-{name.encode().hex().ljust(16, '0')[:16]}").mkdir()
    (next(folder.glob(".skillserve-stub-*")) / "SKILL.md").write_text("half")
    (folder / "a/.0123456789abcdef.part").write_text("half")
    sync_stubs(folder, {"a": stub("a", "New.")}, SERVER)
    assert content(folder) == {"a/SKILL.md": stub("a", "New.")}
    assert [each.name for each in folder.iterdir()] == ["a"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_process_that_is_killed_while_it_writes_leaves_whole_stubs(folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from server.capabilities.bridge.stub_folder import sync_stubs\n"
        "from tests.capabilities.bridge.test_stub_folder import stubs\n"
        "print('begun', flush=True)\n"
        "sync_stubs(Path(sys.argv[1]), stubs(*(f's{n}' for n in range(3000))), 'skills')\n"
    )
    words = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while not folder.is_dir() or sum(1 for _ in folder.iterdir()) < 50:
            assert process.poll() is None
        process.kill()
    named = [each for each in folder.iterdir() if not each.name.startswith(".")]
    assert all((each / "SKILL.md").read_text() == stub(each.name) for each in named)
    assert sync_stubs(folder, {}, SERVER).fault == ""
    assert not folder.exists()


@pytest.mark.skipif(not CAN_BE_BOUND, reason="permissions do not apply here")
def test_a_folder_that_cannot_be_written_is_reported(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o500)
    try:
        with bound_by_permissions():
            assert sync_stubs(folder, stubs("a"), SERVER).fault
    finally:
        folder.chmod(0o700)
    assert content(folder) == {}


def test_a_link_to_the_folder_is_followed_and_stays(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    folder.parent.mkdir(parents=True)
    folder.symlink_to(tmp_path / "dotfiles")
    sync_stubs(folder, stubs("a"), SERVER)
    assert (tmp_path / "dotfiles/a/SKILL.md").exists()
    sync_stubs(folder, {}, SERVER)
    assert folder.is_symlink()
    assert [*(tmp_path / "dotfiles").iterdir()] == []
