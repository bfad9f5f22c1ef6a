"""Finds the files that a program needs to run, so that a sandbox mounts these and nothing beside them.

A program's folder may have private neighbours: `~/.cargo/bin` lies beside credentials, `~/.local/bin` beside data of
other programs, a virtual environment beside `pip.conf`. So the sandbox gets the program's file, and its libraries if
the layout of the installation is known.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skills_core.run.scripts.mounts import in_system_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_inside", "required_paths", "sandbox_program"]

_MAX_HOPS = 20
_MAX_SETTINGS = 1 << 16
# Most bytes of a `pyvenv.cfg`.


class _Layout(NamedTuple):
    """Libraries of an installation: patterns for its programs and libraries, and a file that identifies it.

    Paths are relative to the parent of the program's folder.
    """

    program: str
    libraries: tuple[str, ...]
    landmark: str = ""


_PYTHON = r"(?:python|pypy)[\d.]*t?"

_LAYOUTS = (
    _Layout(r".*", ("lib/*.so*",)),
    _Layout(_PYTHON, ("lib/python[0-9]*", "lib64/python[0-9]*", "lib/pypy[0-9]*", "lib/tcl*", "lib/tk*")),
    _Layout(r".*", ("pyvenv.cfg", "bin", "lib", "lib64"), "pyvenv.cfg"),
    _Layout(r".*", ("lib", "share/zoneinfo", "ssl"), "conda-meta"),
    _Layout(r".*", ("Cellar", "lib", "opt"), "Cellar"),
    _Layout(r"ruby[\d.]*", ("lib/ruby",)),
    _Layout(r"perl[\d.]*", ("lib/perl5", "lib/site_perl", "lib/[0-9]*")),
    _Layout(r"(?:R|Rscript)", ("lib/R", "lib64/R")),
    _Layout(r"lua[\d.]*", ("lib/lua", "share/lua")),
    _Layout(r"php[\d.]*", ("lib/php",)),
    _Layout(r"julia", ("lib/julia", "share/julia")),
    _Layout(r"java", ("lib", "conf/security"), "lib/modules"),
)

_POWERSHELL = "System.Management.Automation.dll"
# PowerShell keeps its libraries beside the program.


def sandbox_program(program: Path) -> Path:
    """Return the path at which the sandbox starts `program`: a link's target, except in a virtual environment."""
    is_virtual = (program.parent.parent / "pyvenv.cfg").exists()
    return program if in_system_mounts(program) or is_virtual else program.resolve()


def required_paths(program: Path, home: Path, workspace: Path | None = None) -> list[Path]:
    """Return what the sandbox must mount so that `program` runs: its file, its chain of links, and their libraries.

    The result never contains the user's `home`, `~/.local` or their parents, whatever the layout. Nor does it contain
    files in the `workspace`, which is mounted anyway: a script may change them, and must not get other files mounted.
    """
    private: set[Path] = set()
    for each in (home, home.resolve()):
        local = each / ".local"
        private |= {each, *each.parents, each / "bin", each / "lib", local, local / "bin", local / "lib"}
    hops = [hop for each in (program, *_base_python(program)) for hop in _link_chain(each)]
    if _is_text(program):
        return []
    if is_inside(program, workspace):
        # A script may have made the link, and running a text file would reveal its content.
        hops = [hop for hop in hops if _is_binary(hop)]
    found = dict.fromkeys(place for hop in hops for place in (hop, *_libraries(hop)))
    places = {
        place: None
        for place in found
        if place not in private and not in_system_mounts(place) and not is_inside(place, workspace)
    }
    # A mounted folder includes its content, and nothing can be mounted on a link in it.
    return [place for place in places if places.keys().isdisjoint(place.parents)]


def _is_binary(program: Path) -> bool:
    """Tell whether this is an executable binary."""
    return os.access(program, os.X_OK) and _first_bytes(program, 4) == b"\x7fELF"


def _is_text(program: Path) -> bool:
    """Tell whether this is text without an interpreter: a shell would run it, and print it line by line in errors."""
    beginning = _first_bytes(program, 4)
    return bool(beginning) and beginning != b"\x7fELF" and not beginning.startswith(b"#!")


def _first_bytes(path: Path, size: int) -> bytes:
    """Return the first bytes of a file; empty for anything but a regular file, which could block the reader."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def is_inside(path: Path, folder: Path | None) -> bool:
    """Tell whether `path` is in `folder` or leads through it, also through links."""
    if folder is None:
        return False
    real = _real(folder)
    return any(each.is_relative_to(folder) or _real(each).is_relative_to(real) for each in (path, *path.parents))


def _real(path: Path) -> Path:
    """Resolve the links of a path; link cycles stay."""
    return Path(os.path.realpath(path))


def _link_chain(program: Path) -> Iterator[Path]:
    """Yield a program and each link target on the way to its file: all of them must be mounted."""
    for _ in range(_MAX_HOPS):
        yield program
        if not program.is_symlink():
            break
        program = Path(os.path.normpath(program.parent / program.readlink()))
    yield _real(program)


def _base_python(program: Path) -> list[Path]:
    """Return the base Python of a virtual environment, which may have copies instead of links."""
    text = _first_bytes(program.parent.parent / "pyvenv.cfg", _MAX_SETTINGS).decode(errors="replace")
    settings = (line.partition("=") for line in text.splitlines())
    home = Path(next((value.strip() for key, _, value in settings if key.strip().lower() == "home"), ""))
    names = (program.name, "python3", "python") if home.is_absolute() else ()
    return [home / name for name in names if _is_binary(home / name)][:1]


def _libraries(program: Path) -> Iterator[Path]:
    if in_system_mounts(program):
        return
    if (program.parent / _POWERSHELL).is_file():
        yield program.parent
    if program.parent.name != "bin":
        return
    root = program.parent.parent
    for layout in _LAYOUTS:
        if re.fullmatch(layout.program, program.name) and (root / layout.landmark).exists():
            for pattern in layout.libraries:
                # A link out of an installation could lead anywhere.
                yield from sorted(each for each in root.glob(pattern) if is_inside(_real(each), root))
