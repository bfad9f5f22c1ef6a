"""What the settings of scripts must be beyond their types. A fault is a `ValueError` that says what was expected."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.run.scripts.environment import HIDDEN_PREFIX

if TYPE_CHECKING:
    from server.config.values import SecretStr

__all__ = ["check_index", "check_names", "check_workspace"]

_INDEX = re.compile(r"https?://[\x21-\x7e]{1,2000}")


def check_index(index: SecretStr | None) -> None:
    """See that an index of packages is a URL; it may hold a password, which no message shows."""
    if index is not None and not _INDEX.fullmatch(index.get_secret_value()):
        raise ValueError("expected a URL that begins with https:// or http://")


def check_names(names: tuple[str, ...]) -> None:
    """See that these are names of variables, and of none of the server's own settings."""
    for name in names:
        if name.upper().startswith(HIDDEN_PREFIX) or not name or "=" in name or "\0" in name:
            raise ValueError(f"{name[:80]!r}: expected a variable's name; none that begins with {HIDDEN_PREFIX}")


def check_workspace(workspace: str | None) -> None:
    """See that the folder which scripts are started in is there."""
    place = Path(workspace).expanduser() if workspace is not None else None
    if place is not None and not (place.is_absolute() and place.is_dir()):
        raise ValueError(f"{workspace!r}: expected the absolute path of a folder that exists")
