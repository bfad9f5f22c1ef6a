"""What the core is not allowed to ask: the machine this process runs on, as values."""

from __future__ import annotations

import functools
import os
import shutil
import sys

from skills_core.gates import Environment

__all__ = ["current_environment"]

_SYSTEMS = {"win32": "windows", "cygwin": "windows", "darwin": "macos"}


def current_environment() -> Environment:
    """Describe this machine for gates; executables are looked up when first asked for, and once."""
    return Environment(
        os=_SYSTEMS.get(sys.platform, sys.platform),
        has_bin=functools.cache(lambda name: shutil.which(name) is not None),
        variables=dict(os.environ),
    )
