from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core.errors import ScriptRefusedError
from skills_core.scripts.programs import ProgramFinder, find_interpreter, required_paths, sandbox_program
from tests.thoroughness import examples

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="there are no sandboxes there, and the programs are made as on POSIX"
)

PROGRAMS = ["just", "python3", "python3.12", "node", "ruby", "perl", "Rscript", "lua", "php", "deno", "bun", "java"]
SECRETS = [
    "credentials.toml",
    ".env",
    "pip.conf",
    "etc/npmrc",
    "share/keyrings/login.keyring",
    "registry/index/token",
    "config.json",
    "bin/.secret",
    ".netrc",
]
FOLDERS = [".cargo", ".local", ".npm-global", ".pyenv/versions/3.12.1", "miniconda3", "project/.venv", "", "go", ".bun"]


def install(folder: Path, program: str, *more: str) -> Path:
    """Write a program and other files into a folder as installers lay them out."""
    for name in (f"bin/{program}", *more):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x7fELF")
        path.chmod(0o755)
    return folder / "bin" / program


def shows(shown: list[Path], path: Path) -> bool:
    return any(path.resolve().is_relative_to(place.resolve()) for place in shown)


@settings(max_examples=examples(50), deadline=None)
@given(folder=st.sampled_from(FOLDERS), program=st.sampled_from(PROGRAMS), virtual=st.booleans())
def test_no_secret_beside_a_program_is_shown(
    tmp_path_factory: pytest.TempPathFactory, folder: str, program: str, *, virtual: bool
) -> None:
    home = tmp_path_factory.mktemp("home")
    root = home / folder
    found = install(root, program, *SECRETS, *(["pyvenv.cfg"] if virtual and folder else []))
    shown = required_paths(sandbox_program(found), home)
    assert shows(shown, found)
    # The programs of a virtual environment are shown together, as they are installed together.
    redact = [secret for secret in SECRETS if not (virtual and folder and secret.startswith("bin/"))]
    assert [secret for secret in redact if shows(shown, root / secret)] == []
    assert not any(home.is_relative_to(place) for place in shown)


@pytest.mark.parametrize(
    ("program", "libraries"),
    [
        ("python3.12", ["lib/python3.12/os.py", "lib/libpython3.12.so.1.0", "lib/tcl8.6/init.tcl"]),
        ("pypy3.10", ["lib/pypy3.10/os.py", "lib/libpypy3.10-c.so"]),
        ("ruby", ["lib/ruby/3.3.0/set.rb", "lib/libruby.so.3.3"]),
        ("perl", ["lib/5.40.0/strict.pm", "lib/site_perl/5.40.0/X.pm"]),
        ("Rscript", ["lib/R/library/base/R/base"]),
        ("lua5.4", ["lib/lua/5.4/x.so", "share/lua/5.4/x.lua"]),
        ("node", ["lib/libnode.so.115"]),
    ],
)
def test_the_libraries_of_an_interpreter_are_shown(tmp_path: Path, program: str, libraries: list[str]) -> None:
    root = tmp_path / "home" / "tools" / program
    found = install(root, program, *libraries)
    shown = required_paths(found, tmp_path / "home")
    assert [name for name in libraries if not shows(shown, root / name)] == []


def test_a_virtual_environment_is_shown_with_the_python_that_it_links_to(tmp_path: Path) -> None:
    home = tmp_path / "home"
    base = install(home / ".pyenv" / "versions" / "3.12.1", "python3.12", "lib/python3.12/os.py")
    virtual = home / "project" / ".venv"
    install(virtual, "tool", "pyvenv.cfg", "lib/python3.12/site-packages/x.py", "pip.conf", ".env")
    (virtual / "bin" / "python3").symlink_to(base)
    (virtual / "bin" / "python").symlink_to("python3")
    shown = required_paths(sandbox_program(virtual / "bin" / "python"), home)
    # Nothing can be mounted on a link within what is mounted already.
    assert [place for place in shown if not set(shown).isdisjoint(place.parents)] == []
    for path in (base, base.parents[1] / "lib/python3.12/os.py", virtual / "lib/python3.12/site-packages/x.py"):
        assert shows(shown, path), path
    assert not any(shows(shown, virtual / name) for name in ("pip.conf", ".env"))


def test_a_link_mounts_its_target_and_nothing_beside_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    real = install(home / "apps" / "just-1.0", "just", "secret")
    (home / ".local" / "bin").mkdir(parents=True)
    (home / ".local" / "bin" / "just").symlink_to(real)
    shown = required_paths(home / ".local" / "bin" / "just", home)
    assert shown == [home / ".local" / "bin" / "just", real]


def test_a_home_behind_a_link_is_as_private(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    found = install(tmp_path / "real", "tool", "conda-meta/x", "pyvenv.cfg", ".ssh/id", "bin/other")
    shown = required_paths(found, tmp_path / "home")
    assert not any(shows(shown, tmp_path / "real" / name) for name in (".ssh/id", "bin/other"))


def test_programs_of_the_system_need_nothing_more(tmp_path: Path) -> None:
    assert required_paths(Path("/usr/bin/env"), tmp_path) == []
    assert required_paths(Path("/usr/src/app/bin/tool"), tmp_path) == [Path("/usr/src/app/bin/tool")]


@pytest.mark.parametrize("linked", [False, True])
def test_a_virtual_environment_of_copies_is_shown_with_the_python_that_it_was_made_from(
    tmp_path: Path, *, linked: bool
) -> None:
    home = tmp_path / "home"
    base = install(home / ".pyenv" / "versions" / "3.12.1", "python3", "lib/python3.12/os.py", "pip.conf")
    if linked:
        (home / "current").symlink_to(base.parents[1])
    said = home / "current" / "bin" if linked else base.parent
    found = install(home / "project" / ".venv", "python3", "lib/python3.12/site-packages/x.py")
    (home / "project" / ".venv" / "pyvenv.cfg").write_text(f"version = 3.12.1\nhome = {said}\n")
    shown = required_paths(sandbox_program(found), home)
    for path in (found, base, said.parent / "lib/python3.12/os.py", home / "project/.venv/lib/python3.12"):
        assert shows(shown, path), path
    assert not shows(shown, base.parents[1] / "pip.conf")


@pytest.mark.parametrize("landmark", ["conda-meta", "pyvenv.cfg", "Cellar"])
@pytest.mark.parametrize("linked", ["lib", "lib64", "opt", "bin", "lib/x.so", "lib/python3.12"])
def test_a_library_that_is_a_link_out_of_its_installation_is_not_shown(
    tmp_path: Path, landmark: str, linked: str
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").touch()
    root = home / "work" / "x"
    found = install(root, "python3", f"{landmark}/x" if landmark != "pyvenv.cfg" else landmark)
    place = root / linked
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        place.rename(root / "old")
        found = root / "old" / "python3"
    place.symlink_to(home / ".ssh" / "id" if linked == "lib/x.so" else home / ".ssh")
    assert not shows(required_paths(found, home), home / ".ssh" / "id")


def test_a_program_in_the_workspace_mounts_only_its_target_outside(tmp_path: Path) -> None:
    home = tmp_path / "home"
    base = install(home / ".pyenv" / "versions" / "3.12.1", "python3.12", "lib/python3.12/os.py")
    work = home / "work"
    virtual = work / ".venv"
    install(virtual, "tool", "pyvenv.cfg", "lib/python3.12/site-packages/x.py")
    (virtual / "bin" / "python3").symlink_to(base)
    (tmp_path / "alias").symlink_to(work)
    wanted = [base, base.parents[1] / "lib" / "python3.12"]
    for root in (work, tmp_path / "alias"):
        for spelling in (work, tmp_path / "alias"):
            assert required_paths(spelling / ".venv" / "bin" / "python3", home, root) == wanted


@pytest.mark.parametrize("mode", [0o600, 0o700])
def test_a_link_in_the_workspace_shows_no_text_and_no_folder(tmp_path: Path, mode: int) -> None:
    home = tmp_path / "home"
    work = home / "work"
    (home / "bin").mkdir(parents=True)
    secret, folder = home / "bin" / ".netrc", home / ".ssh"
    folder.mkdir()
    secret.write_text("secret")
    secret.chmod(mode)
    install(work / "x", ".ssh")
    (work / "x" / "pyvenv.cfg").write_text(f"home = {home}\n")
    (work / "text").symlink_to(secret)
    (work / "folder").symlink_to(folder)
    # What the kernel finds by this link is a program, and what its words say is a folder.
    (work / "deep" / "down").mkdir(parents=True)
    (work / "down").symlink_to("deep/down")
    (work / "twisted").symlink_to("down/../../.ssh")
    (work / ".ssh").symlink_to("x/bin/.ssh")
    os.mkfifo(work / "pipe")
    for name in ("x/bin/.ssh", "text", "folder", "twisted", "pipe"):
        assert required_paths(work / name, home, work) == [], name


def test_cycles_of_links_and_environments_end(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for one, other in (("a", "b"), ("b", "a")):
        install(home / one, "python3", "lib64/x.so")
        (home / one / "pyvenv.cfg").write_text(f"home = {home / other / 'bin'}\n")
        (home / one / "lib").symlink_to(home / one / "lib")
    (home / "a" / "bin" / "loop").symlink_to("loop")
    assert shows(required_paths(home / "a" / "bin" / "python3", home), home / "b" / "bin" / "python3")
    assert required_paths(home / "a" / "bin" / "loop", home)
    assert not any((home / "a").is_relative_to(each) for each in required_paths(home / "a" / "bin" / "loop", home))


@pytest.mark.parametrize(("content", "is_shown"), [(b"#!/bin/sh\n", True), (b"\x7fELF", True), (b"TOKEN=1\n", False)])
def test_a_file_that_is_not_a_program_is_not_mounted_whatever_its_mode(
    tmp_path: Path, content: bytes, *, is_shown: bool
) -> None:
    found = install(tmp_path / "home" / "tools", "tool")
    found.write_bytes(content)
    assert (found in required_paths(found, tmp_path / "home", tmp_path / "work")) == is_shown


OWN = Path("/own/python")


def program(folder: Path, name: str, content: bytes = b"\x7fELF") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    path.chmod(0o755)
    return path


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    for name in ("python3", "python3.12", "sh", "node", "ruby", "pwsh"):
        program(folder, name)
    return folder


@pytest.mark.parametrize(
    ("path", "first", "expected"),
    [
        ("a.py", "print(1)", ["python3"]),
        ("a.PY", "print(1)", ["python3"]),
        ("a.sh", "echo", ["sh"]),
        ("a.mjs", "", ["node"]),
        ("a.rb", "", ["ruby"]),
        ("a.ps1", "", ["pwsh", "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File"]),
        ("a", "#!/usr/bin/env python3", ["python3"]),
        ("a", "#!/usr/bin/env python3.12", ["python3.12"]),
        ("a", "#!/usr/bin/env python3.9", ["python3"]),
        ("a", "#!/usr/bin/env -S ruby -w --disable=gems", ["ruby", "-w", "--disable=gems"]),
        ("a", "#!/usr/bin/env -Sruby -w", ["ruby", "-w"]),
        ("a", "#!/usr/bin/env -S uv run --script", ["python3"]),
        ("a", "#!/usr/bin/env -S pipx run", ["python3"]),
        ("a", "#! /no/such/place/ruby -w", ["ruby", "-w"]),
        ("a.py", "#!/usr/bin/env ruby\r", ["ruby"]),
        ("a", "#!/usr/bin/env -S ruby -e '$(id); `id`'", ["ruby", "-e", "$(id); `id`"]),
    ],
)
def test_the_shebang_decides_and_else_the_suffix(bin_folder: Path, path: str, first: str, expected: list[str]) -> None:
    found = find_interpreter(path, f"{first}\nmore\n".encode(), ProgramFinder((bin_folder,), OWN))
    name, *options = expected
    assert found.argv == (str(bin_folder / name), *options)


def test_a_program_found_elsewhere_is_noted(bin_folder: Path) -> None:
    found = find_interpreter("a", b"#!/no/such/place/ruby\n", ProgramFinder((bin_folder,), OWN))
    assert found.note == f"/no/such/place/ruby is not there; {bin_folder / 'ruby'} was used"


def test_a_program_runs_by_itself() -> None:
    assert find_interpreter("a", b"\x7fELF...", ProgramFinder((), OWN)).argv == ()


def test_there_is_always_a_python(tmp_path: Path) -> None:
    assert find_interpreter("a.py", b"", ProgramFinder((tmp_path,), OWN)).argv == (str(OWN),)


def test_a_shim_is_skipped(tmp_path: Path, bin_folder: Path) -> None:
    program(tmp_path / "shims", "python3", b"#!/usr/bin/env bash\nexec pyenv exec python3\n")
    found = find_interpreter("a.py", b"", ProgramFinder((tmp_path / "shims", bin_folder), OWN))
    assert found.argv == (str(bin_folder / "python3"),)


def test_the_server_itself_runs_no_program_from_a_folder_that_scripts_can_write(
    tmp_path: Path, bin_folder: Path
) -> None:
    work = tmp_path / "work"
    program(work / ".venv" / "bin", "ruby", b"\x7fELF")
    (tmp_path / "alias").symlink_to(work / ".venv")
    for folder in (work / ".venv" / "bin", tmp_path / "alias" / "bin"):
        programs = ProgramFinder((folder, bin_folder), OWN, (work,))
        assert programs.find("ruby") == folder / "ruby"
        assert programs.find_trusted("ruby") == bin_folder / "ruby"


@pytest.mark.parametrize(
    ("path", "raw", "why"),
    [
        ("README.md", b"# Title", "nothing tells how to run it"),
        ("a", b"echo", "nothing tells how to run it"),
        ("a.lua", b"", "lua is not installed"),
        ("a.bat", b"", "a batch file"),
        ("a", b"#!\n", "does not name a program"),
        ("a", b"#!/usr/bin/env\n", "does not name a program"),
        ("a", b"#!/usr/bin/env -i ruby\n", "does not name a program"),
        ("a", b"#!/usr/bin/env A=1 ruby\n", "does not name a program"),
        ("a", b"#!/usr/bin/env 'ruby\n", "does not name a program"),
        ("a", b"#!/usr/bin/perl5.nope\n", "requires perl5.nope, which is not installed"),
        ("a", b"#!/usr/bin/env ../ruby\n", "requires ruby|does not name a program"),
    ],
)
def test_a_script_without_an_interpreter_is_refused_with_the_reason(
    tmp_path: Path, path: str, raw: bytes, why: str
) -> None:
    with pytest.raises(ScriptRefusedError, match=why):
        find_interpreter(path, raw, ProgramFinder((tmp_path,), OWN))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_first_line_yields_a_program_or_a_refusal(rest: bytes) -> None:
    try:
        found = find_interpreter("a", b"#!" + rest, ProgramFinder((), OWN))
    except ScriptRefusedError:
        return
    assert found.argv
