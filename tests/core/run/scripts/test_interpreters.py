"""Which program runs a script."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core.errors import ScriptRefusedError
from skills_core.run.scripts.interpreters import ProgramFinder, find_interpreter

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="these programs are made as on POSIX")

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
