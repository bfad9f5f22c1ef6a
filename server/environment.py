"""What the core is not allowed to ask: the machine this process runs on and its user's files, as values."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from pathlib import Path

from server.jdai_files import JdaiFiles
from server.trust import TrustError, TrustFile
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.gates import Environment
from skills_core.locations import Places, project_of

__all__ = ["current_environment", "current_places", "jdai_files", "trust_file", "watched_files"]

_SYSTEMS = {"win32": "windows", "cygwin": "windows", "darwin": "macos"}


def current_places() -> Places:
    """Return where this user and the project in the working directory keep skills."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - a user without a home is no error
    return Places(home.absolute(), Path.cwd(), _config_home(home.absolute()))


def jdai_files() -> JdaiFiles:
    """Return JD.AI's files of the user and of the project."""
    places = current_places()
    return JdaiFiles(places.home, project_of(places.working_directory))


def trust_file() -> TrustFile:
    """Return the list of the projects that the user trusts."""
    return TrustFile(current_places().config_home / "skillserve" / "trusted.json")


def watched_files() -> tuple[Path, ...]:
    """Return the files that decide, beside the skills themselves, which of them are served."""
    return (*jdai_files().paths, trust_file().path)


def current_environment() -> Environment:
    """Describe this machine for gates; executables are looked up when first asked for, and once."""
    jdai, (trusted, problems) = jdai_files().read(), _trusted()
    return Environment(
        os=_SYSTEMS.get(sys.platform, sys.platform),
        has_bin=functools.cache(lambda name: shutil.which(name) is not None),
        variables=dict(os.environ),
        config=jdai.config,
        entries=jdai.entries,
        bundled=jdai.bundled,
        trusts=lambda folder: not trusted.isdisjoint((folder, *folder.parents)),
        problems=jdai.problems + problems,
    )


def _trusted() -> tuple[frozenset[Path], tuple[Diagnostic, ...]]:
    file = trust_file()
    try:
        return frozenset(file.folders()), ()
    except TrustError as error:
        path = printable(str(file.path))
        return frozenset(), (Diagnostic(Severity.WARNING, Reason.INVALID_CONFIGURATION, str(error), path),)


def _config_home(home: Path) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    given = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification of these variables: a relative path is to be ignored.
    return Path(given) if given.startswith("/") else home / ".config"
