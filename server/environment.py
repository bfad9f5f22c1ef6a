"""What the core is not allowed to ask: the machine this process runs on, as values."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from pathlib import Path

from server.jdai_files import JdaiFiles
from skills_core.gates import Environment

__all__ = ["current_environment", "jdai_files"]

_SYSTEMS = {"win32": "windows", "cygwin": "windows", "darwin": "macos"}


def jdai_files() -> JdaiFiles:
    """Return JD.AI's files of the user and of the working directory."""
    return JdaiFiles(Path(os.path.expanduser("~")), Path.cwd())  # noqa: PTH111 - a user without a home is no error


def current_environment() -> Environment:
    """Describe this machine for gates; executables are looked up when first asked for, and once."""
    jdai = jdai_files().read()
    return Environment(
        os=_SYSTEMS.get(sys.platform, sys.platform),
        has_bin=functools.cache(lambda name: shutil.which(name) is not None),
        variables=dict(os.environ),
        config=jdai.config,
        entries=jdai.entries,
        bundled=jdai.bundled,
        problems=jdai.problems,
    )
