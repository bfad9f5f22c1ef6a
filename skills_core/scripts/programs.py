"""Finds the interpreter of a script, and the files that a program needs to run in a sandbox.

The interpreter is that of the shebang, else of the suffix; a binary runs by itself. The shebang is parsed here and not
by a shell, and means the same on every system.

A program's folder may have private neighbours: `~/.cargo/bin` lies beside credentials, `~/.local/bin` beside data of
other programs, a virtual environment beside `pip.conf`. So the sandbox gets the program's file, and its libraries if
the layout of the installation is known.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from skills_core.errors import ScriptRefusedError
from skills_core.scripts.sandbox import in_system_mounts

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


_PYTHON_NAMES = r"(?:python|pypy)[\d.]*t?"

_LAYOUTS = (
    _Layout(r".*", ("lib/*.so*",)),
    _Layout(_PYTHON_NAMES, ("lib/python[0-9]*", "lib64/python[0-9]*", "lib/pypy[0-9]*", "lib/tcl*", "lib/tk*")),
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

_POWERSHELL_LIBRARY = "System.Management.Automation.dll"
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
    hops = [hop for each in (program, *base_python(program)) for hop in link_chain(each)]
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
    return os.access(program, os.X_OK) and first_bytes(program, 4) == b"\x7fELF"


def _is_text(program: Path) -> bool:
    """Tell whether this is text without an interpreter: a shell would run it, and print it line by line in errors."""
    beginning = first_bytes(program, 4)
    return bool(beginning) and beginning != b"\x7fELF" and not beginning.startswith(b"#!")


def first_bytes(path: Path, size: int) -> bytes:
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


def link_chain(program: Path) -> Iterator[Path]:
    """Yield a program and each link target on the way to its file: all of them must be mounted."""
    for _ in range(_MAX_HOPS):
        yield program
        if not program.is_symlink():
            break
        program = Path(os.path.normpath(program.parent / program.readlink()))
    yield _real(program)


def base_python(program: Path) -> list[Path]:
    """Return the base Python of a virtual environment, which may have copies instead of links."""
    text = first_bytes(program.parent.parent / "pyvenv.cfg", _MAX_SETTINGS).decode(errors="replace")
    settings = (line.partition("=") for line in text.splitlines())
    home = Path(next((value.strip() for key, _, value in settings if key.strip().lower() == "home"), ""))
    names = (program.name, "python3", "python") if home.is_absolute() else ()
    return [home / name for name in names if _is_binary(home / name)][:1]


def _libraries(program: Path) -> Iterator[Path]:
    if in_system_mounts(program):
        return
    if (program.parent / _POWERSHELL_LIBRARY).is_file():
        yield program.parent
    if program.parent.name != "bin":
        return
    root = program.parent.parent
    for layout in _LAYOUTS:
        if re.fullmatch(layout.program, program.name) and (root / layout.landmark).exists():
            for pattern in layout.libraries:
                # A link out of an installation could lead anywhere.
                yield from sorted(each for each in root.glob(pattern) if is_inside(_real(each), root))


_POWERSHELL = ("-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File")

_BY_SUFFIX: dict[str, tuple[tuple[str, ...], ...]] = {
    ".py": (("python3",),),
    ".sh": (("bash",), ("sh",)),
    ".bash": (("bash",),),
    ".zsh": (("zsh",),),
    ".js": (("node",), ("bun",)),
    ".cjs": (("node",), ("bun",)),
    ".mjs": (("node",), ("bun",)),
    ".ts": (("bun",), ("deno", "run", "--allow-all"), ("node",)),
    ".mts": (("bun",), ("deno", "run", "--allow-all"), ("node",)),
    ".rb": (("ruby",),),
    ".pl": (("perl",),),
    ".php": (("php",),),
    ".lua": (("lua",),),
    ".r": (("Rscript",),),
    ".ps1": (("pwsh", *_POWERSHELL), ("powershell", *_POWERSHELL)),
}
# The interpreters of each suffix with their options; the first that is installed counts.

_BINARY = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")
# The first bytes of binaries for Linux, macOS and Windows.

_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?(?:\.exe)?")
_PYTHON_RUNNERS = frozenset({"pipx", "uv"})
# Programs that run a Python script with the packages of its metadata block; here uv installs these in any case.

_MAX_FIRST_LINE = 1024
_BATCH_SUFFIXES = frozenset({".bat", ".cmd"})
# A shell parses their arguments in any case.


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The interpreter and options before a script, empty if it runs by itself; `note` is a remark for the result."""

    argv: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class ProgramFinder:
    """Looks programs up in `folders`, in order; `python` is the fallback for Python.

    `changeable` are folders that scripts and models may write to.
    """

    folders: tuple[Path, ...]
    python: Path
    changeable: tuple[Path, ...] = ()

    def find(self, name: str) -> Path | None:
        """Return the first program of this name, None if there is none."""
        return next(self._found(name), None)

    def find_trusted(self, name: str) -> Path | None:
        """Return the first program of this name that the server may run outside a sandbox, None if there is none."""
        found = (path for path in self._found(name) if not any(is_inside(path, each) for each in self.changeable))
        return next(found, None)

    def find_python(self, name: str = "python3") -> Path:
        """Return the Python of this name, or another Python."""
        names = dict.fromkeys([name, "python3", "python"])
        return next((path for each in names for path in self._found(each)), self.python)

    def _found(self, name: str) -> Iterator[Path]:
        if PurePosixPath(name).name != name or os.sep in name:
            return
        for folder in self.folders:
            found = shutil.which(name, path=folder)
            # Windows searches the working directory first, and has programs that only open its store.
            if found and Path(found).parent == folder and folder.name != "WindowsApps" and not _is_shim(found):
                yield Path(found)


def _is_shim(path: str) -> bool:
    """Tell whether a program is a shim, which looks for the real one in the user's home; scripts do not have that."""
    if Path(path).suffix.lower() in _BATCH_SUFFIXES:
        return True
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the path is a string
            return file.read(2) == b"#!"
    except OSError:
        return True


def is_python(path: str, raw: bytes) -> bool:
    """Tell whether a script is for Python: by its shebang, else by its suffix."""
    words = _shebang_words(path, raw)
    if not words:
        return PurePosixPath(path).suffix.lower() == ".py"
    name = PurePosixPath(words[0]).name
    return name in _PYTHON_RUNNERS or _PYTHON.fullmatch(name) is not None


def find_interpreter(path: str, raw: bytes, programs: ProgramFinder) -> Interpreter:
    """Return the interpreter of the script `path` with the content `raw`.

    Raises:
        ScriptRefusedError: the interpreter is unknown or not installed.
    """
    words = _shebang_words(path, raw)
    if is_python(path, raw):
        name = PurePosixPath(words[0]).name if words else "python3"
        if name in _PYTHON_RUNNERS:
            return Interpreter((str(programs.find_python()),))
        return Interpreter((str(programs.find_python(name)), *words[1:]))
    if words:
        return _from_shebang(path, words, programs)
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _BATCH_SUFFIXES:
        raise ScriptRefusedError(path, "a shell would parse the arguments of a batch file; use PowerShell (.ps1)")
    for program, *options in _BY_SUFFIX.get(suffix, ()):
        if found := programs.find(program):
            return Interpreter((str(found), *options))
    if suffix in _BY_SUFFIX:
        wanted = " or ".join(dict.fromkeys(program for program, *_ in _BY_SUFFIX[suffix]))
        raise ScriptRefusedError(path, f"{wanted} is not installed, or not on the search path")
    if raw.startswith(_BINARY):
        return Interpreter(())
    known = " ".join(_BY_SUFFIX)
    raise ScriptRefusedError(
        path, f"nothing tells how to run it; expected a first line with #!, or one of the suffixes {known}"
    )


def _shebang_words(path: str, raw: bytes) -> tuple[str, ...]:
    """Return the words of the shebang without `env`; empty if there is no shebang."""
    if not raw.startswith(b"#!"):
        return ()
    line = raw[2:_MAX_FIRST_LINE].split(b"\n", 1)[0].decode("utf-8", errors="replace").strip()
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    if words and PurePosixPath(words[0]).name == "env":
        words = words[1:]
        if words and words[0] in {"-S", "--split-string"}:
            words = words[1:]
        elif words and words[0].startswith("-S"):
            words[0] = words[0][2:]
    if not words or words[0].startswith("-") or "=" in words[0]:
        raise ScriptRefusedError(path, f"its first line does not name a program: #!{line[:100]}")
    return tuple(words)


def _from_shebang(path: str, words: tuple[str, ...], programs: ProgramFinder) -> Interpreter:
    program, options = words[0], words[1:]
    name = PurePosixPath(program).name
    there = Path(program)
    if there.is_absolute() and there.is_file() and os.access(there, os.X_OK) and not _is_shim(program):
        return Interpreter((program, *options))
    found = programs.find(name)
    if found is None:
        raise ScriptRefusedError(
            path, f"its first line requires {name}, which is not installed, or not on the search path"
        )
    note = f"{program} is not there; {found} was used" if there.is_absolute() else ""
    return Interpreter((str(found), *options), note)
