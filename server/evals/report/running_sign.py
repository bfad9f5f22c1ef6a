"""The sign of running work in a workspace: a file that the work renews, so that a killed process leaves an old one."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["RENEWED_SECONDS", "STALE_SECONDS", "remove_sign", "renew_sign", "work_runs"]

RENEWED_SECONDS: Final = 20.0
"""How often running work renews its sign, at least."""

STALE_SECONDS: Final = 90.0
"""Age from which a sign counts as that of a killed process."""

_SIGN: Final = ".running"


def renew_sign(workspace: Path) -> None:
    """Say that work runs in a workspace; on a disk that refuses it, readers take the work as interrupted."""
    with suppress(OSError):
        (workspace / _SIGN).touch()


def remove_sign(workspace: Path) -> None:
    """Say that no work runs in a workspace."""
    with suppress(OSError):
        (workspace / _SIGN).unlink(missing_ok=True)


def work_runs(root: Path) -> bool:
    """Tell whether work runs in a workspace, or in that of an iteration `root`."""
    for folder in (root, root.resolve().parent):
        with suppress(OSError):
            return abs(time.time() - (folder / _SIGN).lstat().st_mtime) < STALE_SECONDS
    return False
