"""What an agent under test needs of this disk besides the system: where its program is installed, and its companions.

The folders follow from the program that starts, its links and its interpreter, from the PATH and from variables that
name libraries. A version manager puts a program into a folder of its own (`~/.nvm/versions/node/v24.1.0/bin`), and the
whole of that is needed; other programs lie among the user's own files (`~/.local/bin`), and only they are.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import server
import skills_core
from skills_core.scripts.programs import base_python, first_bytes, link_chain

SYSTEM: Final = (
    "/usr",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/sys",
    "/run/current-system",
    "/var/lib/ca-certificates",
)
"""Folders of the system, which every agent can read."""

_PROGRAM_FOLDERS: Final = frozenset({"bin", "sbin", "shims", ".bin"})
_PROJECT_FILES: Final = ("package.json", "pyproject.toml")
_MAX_ABOVE: Final = 4
# Levels between a program and the file that marks its package.

_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_MAX_SCRIPT: Final = 32_768
_MAX_LINKS: Final = 500
_MAX_HOME: Final = 2000

_PATH: Final = re.compile(r"""(?<![\w.])~?/[^\s'"`|&;<>(){}$*?=:,]+""")

_LIBRARY_VARIABLES: Final = frozenset(
    {
        "ASDF_DATA_DIR",
        "CONDA_PREFIX",
        "GEM_PATH",
        "GOROOT",
        "JAVA_HOME",
        "LD_LIBRARY_PATH",
        "NODE_PATH",
        "NVM_DIR",
        "PERL5LIB",
        "PYENV_ROOT",
        "PYTHONPATH",
        "RUBYLIB",
        "SSL_CERT_DIR",
        "VIRTUAL_ENV",
        "VOLTA_HOME",
    }
)


@dataclass(frozen=True, slots=True)
class Reach:
    """Finds what programs need; `search_path` are the folders of the PATH.

    No folder that contains one of the `protected` is ever a result, nor is such a folder itself.
    """

    home: Path
    search_path: tuple[Path, ...]
    protected: tuple[Path, ...]
    _seen: set[Path] = field(default_factory=set)

    def of_program(self, program: Path) -> Iterator[Path]:
        """Yield what a program needs: the files on the way through its links, their installations, its interpreter."""
        if program in self._seen or not program.exists():
            return
        self._seen.add(program)
        for hop in dict.fromkeys(link_chain(program)):
            yield from self._installation(hop)
            for python in base_python(hop):
                yield from self.of_program(python)
        yield from self._interpreter(program.resolve())

    def of_command(self, command: str) -> Iterator[Path]:
        """Yield what a shell command needs: what the absolute paths in it name, and the programs of its words."""
        for word in dict.fromkeys(re.split(r"[\s'\"();|&]+", command)):
            if word and "/" not in word and (found := self._which(word)) is not None:
                yield from self.of_program(found)
        for named in dict.fromkeys(_PATH.findall(command)):
            place = self.home / named[2:] if named.startswith("~/") else Path(named)
            if place.is_dir():
                yield from self._folder(place)
            else:
                yield from self.of_program(place)

    def of_search_path(self) -> Iterator[Path]:
        """Yield the folders of the PATH, with the installations of which they are the programs."""
        for folder in self.search_path:
            if not folder.is_dir() or any(folder.resolve().is_relative_to(each) for each in SYSTEM):
                continue
            whole = folder.parent if folder.name in _PROGRAM_FOLDERS else folder
            if not self._is_protected(whole):
                yield from (whole, whole.resolve())
                for python in base_python(folder / "python3"):
                    yield from self.of_program(python)
            else:
                yield from self._folder(folder)
                yield from self._linked(folder)

    def of_environment(self, environment: Mapping[str, str]) -> Iterator[Path]:
        """Yield the files that variables name, such as certificates and keys, and folders of libraries."""
        for name, value in environment.items():
            for each in value.split(os.pathsep):
                place = Path(each)
                if not place.is_absolute() or len(each) > os.pathconf("/", "PC_PATH_MAX"):
                    continue
                if name in _LIBRARY_VARIABLES and _is_dir(place):
                    yield from self._folder(place)
                elif _is_file(place):
                    yield place

    def of_home(self, home: Path) -> Iterator[Path]:
        """Yield what links in a home lead to outside of it, such as a login that a person keeps elsewhere."""
        for seen, (root, folders, names) in enumerate(os.walk(home)):
            if seen > _MAX_HOME:
                return
            for place in (Path(root, name) for name in (*folders, *names)):
                if place.is_symlink() and not (real := place.resolve()).is_relative_to(home) and real.exists():
                    yield from self._folder(real) if real.is_dir() else (real,)

    def _folder(self, folder: Path) -> Iterator[Path]:
        if not self._is_protected(folder):
            yield from (folder, folder.resolve())

    def _linked(self, folder: Path) -> Iterator[Path]:
        """Yield the programs to which links in a folder lead, which lies among other files of the user."""
        for link in sorted(each for each in folder.iterdir() if each.is_symlink())[:_MAX_LINKS]:
            for hop in dict.fromkeys(link_chain(link)):
                whole = hop.parent.parent
                is_installed = hop.parent.name in _PROGRAM_FOLDERS and not self._is_protected(whole)
                if hop.exists():
                    yield whole if is_installed else hop
                    yield from (place for python in base_python(hop) for place in self.of_program(python))

    def _installation(self, hop: Path) -> Iterator[Path]:
        """Yield the folder with which a program is installed, or the file alone where that has other things."""
        yield hop
        above = list(hop.parents)
        modules = [each for each in above if each.name == "node_modules"]
        marked = (each for each in above[:_MAX_ABOVE] if any((each / name).is_file() for name in _PROJECT_FILES))
        parent = hop.parent.parent if hop.parent.name in _PROGRAM_FOLDERS else hop.parent
        candidates = (*modules[-1:], *([] if modules else marked), parent, hop.parent)
        yield from next((self._folder(each) for each in candidates if not self._is_protected(each)), ())

    def _interpreter(self, program: Path) -> Iterator[Path]:
        """Yield what the interpreter of a script needs, and what a script of a shell names."""
        beginning = first_bytes(program, _MAX_SCRIPT)
        if not beginning.startswith(b"#!"):
            return
        text = beginning.decode("utf-8", "replace")
        words = text.partition("\n")[0][2:].split()
        if words and Path(words[0]).name == "env":
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if not words:
            return
        interpreter = Path(words[0]) if words[0].startswith("/") else self._which(words[0])
        if interpreter is not None:
            yield from self.of_program(interpreter)
        if Path(words[0]).name in _SHELLS:
            yield from self.of_command(text.partition("\n")[2])

    def _which(self, name: str) -> Path | None:
        found = shutil.which(name, path=os.pathsep.join(map(str, self.search_path)))
        return Path(found) if found else None

    def _is_protected(self, folder: Path) -> bool:
        real = folder.resolve()
        return any(each.is_relative_to(place) for place in (folder, real) for each in self.protected)


def protected_places(home: Path, hidden: Iterable[Path], temporary: Path) -> tuple[Path, ...]:
    """Return the places that no folder for an agent may contain: the user's own files, and what is hidden from it."""
    own = [home, home.resolve()]
    below = [each / place for each in own for place in (".local/share", ".local/lib", ".config", ".cache")]
    shared = map(Path, ("/", "/home", "/root", "/mnt", "/media", "/srv", "/var", "/run", "/tmp"))  # noqa: S108
    return tuple(dict.fromkeys((*own, *below, *shared, temporary, *hidden)))


def server_places() -> Iterator[Path]:
    """Yield what this server needs to be started by an agent: its Python, the packages of that, and its own."""
    yield from map(Path, (sys.prefix, sys.base_prefix, sys.exec_prefix))
    yield from (Path(each) for each in (*site.getsitepackages(), site.getusersitepackages()))
    yield from (Path(module.__path__[0]).resolve() for module in (server, skills_core))


def _is_dir(place: Path) -> bool:
    try:
        return place.is_dir()
    except OSError:
        return False


def _is_file(place: Path) -> bool:
    try:
        return place.is_file()
    except OSError:
        return False
