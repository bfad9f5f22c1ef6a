"""Finds the interpreter of a script: by its shebang, else by its suffix; a binary runs by itself.

The shebang is parsed here and not by a shell, and means the same on every system.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from skills_core.errors import ScriptRefusedError
from skills_core.run.scripts.program_files import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Interpreter", "ProgramFinder", "find_interpreter", "is_python"]

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
