"""Find out whether a folder belongs to a git repository of the user."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["work_tree_of"]


def work_tree_of(folder: Path) -> Path | None:
    """Return the folder with the user's repository that a folder is, or is in; None if there is none.

    A `.git` of any kind counts: the folder of a repository, the file of a linked work tree or a submodule, and one that
    is damaged. So does a bare repository.
    """
    for place in (folder, *folder.parents):
        if os.path.lexists(place / ".git") or _is_bare(place):
            return place
    return None


def _is_bare(place: Path) -> bool:
    return all(os.path.lexists(place / name) for name in ("HEAD", "objects", "refs"))
