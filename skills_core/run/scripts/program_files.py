"""Which files a program needs to run, so that a sandbox shows these and nothing that lies beside them.

A program's folder says little about what else is there: `~/.cargo/bin` lies beside credentials, `~/.local/bin` beside
everybody's data, a virtual environment beside `pip.conf`. So the sandbox shows the program's file, and its libraries
where the layout of its installation is known.
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
# Bytes of `pyvenv.cfg`, which has some lines.


class _Layout(NamedTuple):
    """Libraries of an installation: for which programs, with which file to know it by, and where they are.

    Patterns are relative to the folder that the program's folder lies in.
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
# PowerShell has its libraries beside the program.


def sandbox_program(program: Path) -> Path:
    """Return the program to start for `program`: what a link leads to, unless it is one of a virtual environment."""
    is_virtual = (program.parent.parent / "pyvenv.cfg").exists()
    return program if in_system_mounts(program) or is_virtual else program.resolve()


def required_paths(program: Path, home: Path, workspace: Path | None = None) -> list[Path]:
    """Return what must be seen so that `program` runs: its file, all that it is a link to, and their libraries.

    The user's `home`, `~/.local` and the folders that hold them are never among them, whatever the layout. Nor is what
    lies in the `workspace`, which is seen anyway: what a script has changed there must not have anything else shown.
    """
    private: set[Path] = set()
    for each in (home, home.resolve()):
        local = each / ".local"
        private |= {each, *each.parents, each / "bin", each / "lib", local, local / "bin", local / "lib"}
    hops = [hop for each in (program, *_base_python(program)) for hop in _link_chain(each)]
    if _is_text(program):
        return []
    if is_inside(program, workspace):
        # A script may have made the link, and text would come to light when it is run.
        hops = [hop for hop in hops if _is_binary(hop)]
    found = dict.fromkeys(place for hop in hops for place in (hop, *_libraries(hop)))
    places = {
        place: None
        for place in found
        if place not in private and not in_system_mounts(place) and not is_inside(place, workspace)
    }
    # What lies in a folder that is shown is shown with it, and nothing can be mounted on a link there.
    return [place for place in places if places.keys().isdisjoint(place.parents)]


def _is_binary(program: Path) -> bool:
    """Tell whether this is a program by itself, and not text or a folder."""
    return os.access(program, os.X_OK) and _first_bytes(program, 4) == b"\x7fELF"


def _is_text(program: Path) -> bool:
    """Tell whether this names no program to run it: a shell would, and say what is in it line by line."""
    beginning = _first_bytes(program, 4)
    return bool(beginning) and beginning != b"\x7fELF" and not beginning.startswith(b"#!")


def _first_bytes(path: Path, size: int) -> bytes:
    """Return how a file begins; nothing where it is no plain file, which could hold up a reader."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def is_inside(path: Path, folder: Path | None) -> bool:
    """Tell whether `path` lies in `folder` or leads through it, by whatever links."""
    if folder is None:
        return False
    real = _real(folder)
    return any(each.is_relative_to(folder) or _real(each).is_relative_to(real) for each in (path, *path.parents))


def _real(path: Path) -> Path:
    """Resolve the links of a path; those that lead in a circle stay."""
    return Path(os.path.realpath(path))


def _link_chain(program: Path) -> Iterator[Path]:
    """Yield a program and all that it leads to, link by link: each of them must be seen."""
    for _ in range(_MAX_HOPS):
        yield program
        if not program.is_symlink():
            break
        program = Path(os.path.normpath(program.parent / program.readlink()))
    yield _real(program)


def _base_python(program: Path) -> list[Path]:
    """Return the Python that a virtual environment was made from, which has copies in place of links at times."""
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
                # A link that leads out of an installation could lead to anything.
                yield from sorted(each for each in root.glob(pattern) if is_inside(_real(each), root))
