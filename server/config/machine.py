"""What the core is not allowed to ask: the machine this process runs on and its user's files, as values."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from server.config.jdai import JdaiFiles
from server.config.trust import TrustError, TrustFile
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.gates import Environment
from skills_core.locations import Places, project_of
from skills_core.sources import real_path

__all__ = ["Machine", "ServedEnvironment", "current_environment", "current_places", "runtime_folders", "state_home"]

_BUNDLED = Path(__file__).parents[1] / "bundled_skills"

_SYSTEMS = {"win32": "windows", "cygwin": "windows", "darwin": "macos"}


def current_places() -> Places:
    """Return where this user and the project in the working directory keep skills."""
    # Both without links, as the list of trusted folders has them: by another name the home directory would be a
    # project, and to trust a folder in it would be to trust all of it.
    home = real_path(Path(os.path.expanduser("~")))  # noqa: PTH111 - a user without a home is no error
    try:
        here = real_path(Path.cwd())
    except FileNotFoundError:  # somebody removed it
        here = home
    return Places(home, here, _config_home(home), _BUNDLED)


class Machine:
    """This machine and its user, as far as they decide which skills are served.

    Where things are is settled once: the working directory of a server may vanish under it.
    """

    def __init__(self, places: Places) -> None:
        """Nothing is read yet."""
        self.places = places
        self._project = project_of(places.working_directory, places.home)
        self.jdai = JdaiFiles(places.home, self._project)
        self.trust = TrustFile(places.config_home / "skillserve" / "trusted.json")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that decide, beside the skills themselves, which of them are served."""
        return (*self.jdai.paths, self.trust.path)

    def trusts_project(self) -> bool:
        """Tell whether the list of the user names the project, or a folder above it, as it is now."""
        return _contains(self._trusted()[0], self._project)

    def environment(self, *, trust_workspace: bool = False) -> Environment:
        """Describe it for gates as it is now; executables are looked up when first asked for, and once.

        With `trust_workspace` the project is trusted whether or not the list names it.
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
        )

    def _trusted(self) -> tuple[frozenset[Path], tuple[Diagnostic, ...], bool]:
        """Return the trusted folders, what is wrong with their file, and whether it may be read later."""
        try:
            return frozenset(self.trust.folders()), (), False
        except TrustError as error:
            path = printable(str(self.trust.path))
            problem = Diagnostic(Severity.WARNING, Reason.INVALID_CONFIGURATION, str(error), path)
            return frozenset(), (problem,), error.unread


@dataclass(frozen=True, slots=True)
class ServedEnvironment:
    """The environment of a server's skills: its machine as it is at each reading, with what the settings choose."""

    machine: Machine
    trust_workspace: bool = False
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()

    def read(self) -> Environment:
        """Return the environment as it is now."""
        environment = self.machine.environment(trust_workspace=self.trust_workspace)
        return replace(environment, enabled=self.enabled, disabled=self.disabled)


def _contains(trusted: frozenset[Path], folder: Path) -> bool:
    return not trusted.isdisjoint((folder, *folder.parents))


def _has_bin(name: str) -> bool:
    import shutil  # noqa: PLC0415 - few gates ask for programs, and each start would pay for it

    return shutil.which(name) is not None


def current_environment() -> Environment:
    """Describe this machine for gates."""
    return Machine(current_places()).environment()


def runtime_folders() -> tuple[Path, ...]:
    """Return where this user's running servers may leave what lives as long as they do, best first."""
    if sys.platform == "win32":
        return ()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    temporary = Path(os.environ.get("TMPDIR") or "/tmp") / f"skillserve-{os.geteuid()}"  # noqa: S108 - checked there
    return (*([Path(runtime) / "skillserve"] if runtime.startswith("/") else []), temporary)


def state_home() -> Path:
    """Return where what is to outlive a server is kept."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or current_places().home / "AppData" / "Local") / "skillserve"
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if given.startswith("/") else current_places().home / ".local" / "state") / "skillserve"


def _config_home(home: Path) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    given = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification of these variables: a relative path is to be ignored.
    return Path(given) if given.startswith("/") else home / ".config"
