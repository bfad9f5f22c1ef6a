"""Read facts of the machine and the user's files for the core, which accesses neither itself."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from server.capabilities import CAPABILITIES
from server.config.jdai import JdaiFiles
from skills_core.diagnostics import Diagnostic, Reason, Severity, one_line, printable
from skills_core.disk.sources import Places, project_of, real_path
from skills_core.disk.writing import InvalidJsonError, JsonFile
from skills_core.errors import Fault, FileRefusedError, SkillsError
from skills_core.skills.gates import Environment

if TYPE_CHECKING:
    from server.config.settings.model import Settings


SCHEDULED_RUN = "SKILLSERVE_SCHEDULED_RUN"
"""The environment variable of programs that the run of a schedule starts."""

_COMMAND = "skillserve"

_MOST_PROCESSES = 200
# Further processes above are not looked at.

_BUNDLED = Path(__file__).parents[1] / "bundled_skills"

_SYSTEMS = {"win32": "windows", "cygwin": "windows", "darwin": "macos"}


def current_places() -> Places:
    """Return where this user and the project in the working directory keep skills."""
    # Resolve symbolic links, as the list of trusted folders does. Under another path, the home directory would count
    # as a project, and trusting a folder in it would trust all of it.
    home = real_path(Path(os.path.expanduser("~")))  # noqa: PTH111 - a user without a home is not an error
    try:
        here = real_path(Path.cwd())
    except FileNotFoundError:  # the working directory was removed
        here = home
    return Places(home, here, _config_home(home), _BUNDLED)


class Machine:
    """The facts of this machine and its user that decide which skills are served.

    Paths are resolved once, because the working directory of a server may be removed while it runs.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self._project = project_of(places.working_directory, places.home)
        self.jdai = JdaiFiles(places.home, self._project)
        self.trust = TrustFile(places.config_home / "skillserve" / "trusted.json")

    @property
    def files(self) -> tuple[Path, ...]:
        """The configuration files that affect which skills are served."""
        return (*self.jdai.paths, self.trust.path)

    def trusts_project(self) -> bool:
        """Return whether the list of trusted folders now contains the project, or a folder above it."""
        return _contains(self._trusted()[0], self._project)

    def environment(
        self, *, trust_workspace: bool = False, enabled: tuple[str, ...] = (), disabled: tuple[str, ...] = ()
    ) -> Environment:
        """Return the current environment for gates; each executable is looked up at most once, when first needed.

        `trust_workspace` trusts the project even if the list does not contain it. `enabled` and `disabled` are the
        skills that the settings name.
        """
        trusted, problems, unread = self._trusted()
        jdai = self.jdai.read(trusted=trust_workspace or _contains(trusted, self._project))
        return Environment(
            os=_SYSTEMS.get(sys.platform, sys.platform),
            has_bin=functools.cache(_has_bin),
            variables=dict(os.environ),
            config=jdai.config,
            entries=jdai.entries,
            bundled=jdai.bundled,
            trusts=lambda folder: _contains(trusted, folder),
            problems=jdai.problems + problems,
            unread=jdai.unread or unread,
            enabled=enabled,
            disabled=disabled,
        )

    def _trusted(self) -> tuple[frozenset[Path], tuple[Diagnostic, ...], bool]:
        """Return the trusted folders, the diagnostics of their file, and whether reading it may succeed later."""
        try:
            return frozenset(self.trust.folders()), (), False
        except TrustError as error:
            path = printable(str(self.trust.path))
            problem = Diagnostic(Severity.WARNING, Reason.INVALID_CONFIGURATION, str(error), path)
            return frozenset(), (problem,), error.unread


def _contains(trusted: frozenset[Path], folder: Path) -> bool:
    return not trusted.isdisjoint((folder, *folder.parents))


def _has_bin(name: str) -> bool:
    import shutil  # noqa: PLC0415 - few gates check programs, and the import would slow each start

    return shutil.which(name) is not None


def current_environment() -> Environment:
    """Return the environment of this machine for gates."""
    return Machine(current_places()).environment()


def runtime_folders() -> tuple[Path, ...]:
    """Return the folders for files that live as long as a server, such as sockets, in order of preference."""
    if sys.platform == "win32":
        return ()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    temporary = Path(os.environ.get("TMPDIR") or "/tmp") / f"skillserve-{os.geteuid()}"  # noqa: S108 - its users check the owner
    return (*([Path(runtime) / "skillserve"] if runtime.startswith("/") else []), temporary)


def local_zone() -> str:
    """Return the name of this machine's time zone in the IANA database, `UTC` if it has none."""
    if named := os.environ.get("TZ", "").removeprefix(":"):
        return named if "/" in named.strip("/") and not named.startswith("/") else "UTC"
    _, found, name = os.path.realpath("/etc/localtime").partition("zoneinfo/")
    return name.removeprefix("posix/") if found and "/" in name else "UTC"


def is_scheduled_run() -> bool:
    """Tell whether this process was started by the run of a schedule: by its own mark, or that of a process above it.

    A program can remove the mark of its children, and not that of the process which started it. Without a file system
    of processes, as on macOS and Windows, only the own mark is known.
    """
    return bool(os.environ.get(SCHEDULED_RUN)) or any(map(_has_mark, _processes_above()))


def _processes_above() -> Iterator[Path]:
    folder = Path("/proc", str(os.getppid()))
    for _ in range(_MOST_PROCESSES):
        yield folder
        try:
            # The name of the program may contain anything; it ends at the last parenthesis.
            parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[1].decode()
        except (OSError, IndexError):
            return
        if parent == "0":
            return
        folder = Path("/proc", parent)


def _has_mark(process: Path) -> bool:
    try:
        variables = (process / "environ").read_bytes()
    except OSError:
        return False
    return any(each.startswith(f"{SCHEDULED_RUN}=".encode()) for each in variables.split(b"\0"))


def state_home() -> Path:
    """Return the user's folder for persistent state, such as traces."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or current_places().home / "AppData" / "Local") / "skillserve"
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if given.startswith("/") else current_places().home / ".local" / "state") / "skillserve"


def cache_home() -> Path:
    """Return the user's folder for what can be made again, such as the index of skills."""
    if sys.platform == "win32":
        return state_home() / "cache"
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if given.startswith("/") else current_places().home / ".cache") / "skillserve"


def private_folders() -> tuple[Path, ...]:
    """Return the folders of this user's state and settings, which no workspace shows; they need not exist."""
    places = current_places()
    return (state_home(), cache_home(), places.config_home / "skillserve", places.home / ".jdai")


def private_places(settings: Settings) -> tuple[Path, ...]:
    """Return `private_folders` and what capabilities name beside them: it decides what runs may do, and what is known.

    These are, for example, the folder of the audit log, and the file with the MCP servers of runs.
    """
    named = [
        place for each in CAPABILITIES if each.private_places is not None for place in each.private_places(settings)
    ]
    return tuple(dict.fromkeys(real_path(each) for each in (*private_folders(), *named)))


def own_command() -> str:
    """Return what a person types to run this copy: its name, or its path where a shell does not find the name."""
    program = Path(sys.argv[0]).absolute()
    if program.name != _COMMAND or shutil.which(_COMMAND) is not None or not program.exists():
        return _COMMAND
    here = Path.cwd()
    return one_line(shlex.quote(str(program.relative_to(here) if program.is_relative_to(here) else program)))


def tokens_file() -> Path:
    """Return the file of the static tokens with which clients log in over HTTP."""
    return state_home() / "tokens.json"


def _config_home(home: Path) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    given = os.environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says to ignore relative paths.
    return Path(given) if given.startswith("/") else home / ".config"


_VERSION = 1


class TrustError(SkillsError):
    """The file cannot be read or written; `unread` is true if reading it may succeed later."""

    def __init__(self, message: str, *, unread: bool = False) -> None:
        super().__init__(message)
        self.unread = unread


class TrustFile:
    """The file of trusted folders; a missing file is an empty list."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = JsonFile(path)

    def folders(self) -> tuple[Path, ...]:
        """Return the trusted folders, sorted by path.

        Raises:
            TrustError: the file exists, but cannot be read or is invalid.
        """
        try:
            value = self._file.read()
        except InvalidJsonError:
            value = {}
        except FileRefusedError as error:
            if error.fault is Fault.TRANSIENT:
                raise TrustError(f"{error}; until it can be read, no further folder is trusted", unread=True) from None
            raise TrustError(f"{error}; no folder is trusted: remove it and run `skillserve trust` again") from None
        match value:
            case None:
                return ()
            case {"version": 1, "trusted": list(folders)} if all(isinstance(each, str) for each in folders):
                return tuple(sorted(map(Path, folders)))
        message = (
            "this is not a list of trusted folders, so none is trusted; remove it and run `skillserve trust` again"
        )
        raise TrustError(f"{self.path}: {message}")

    def add(self, folder: Path) -> None:
        """Trust a folder and all folders below it.

        Raises:
            TrustError: the file is invalid, or cannot be written.
        """
        self._change(lambda folders: folders | {folder.resolve()})

    def remove(self, folder: Path) -> bool:
        """Remove a folder from the list; return whether the list contained it.

        Raises:
            TrustError: the file is invalid, or cannot be written.
        """
        before = self._change(lambda folders: folders - {folder.resolve()})
        return folder.resolve() in before

    def _change(self, change: Callable[[frozenset[Path]], frozenset[Path]]) -> frozenset[Path]:
        """Apply `change` to the list under a lock between processes; return the list as it was before."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._file.locked():
                before = frozenset(self.folders())
                after = change(before)
                if after != before:
                    self._file.write({"version": _VERSION, "trusted": sorted(map(str, after))})
        except FileRefusedError as error:
            raise TrustError(f"{self.path}: cannot be written: {error.message}") from None
        except OSError as error:
            raise TrustError(f"{self.path}: cannot be written: {(error.strerror or str(error)).lower()}") from None
        return before
