"""Edits of a state before it is written: files that are set and removed, and the folders above them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.diagnostics import printable
from skills_core.errors import HistoryError, SkillEditedError
from skills_core.history.entries import FILE_MODE, FOLDER_MODE, Entry, Kind, is_left_out, parents_of
from skills_core.history.reading import id_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["add_folders", "require_base", "set_file"]


def require_base(state: Mapping[str, Entry], name: str, base: Mapping[str, bytes]) -> None:
    """Check that files are as a change expects them.

    Raises:
        SkillEditedError: one is not.
    """
    for relative, content in base.items():
        entry = state.get(f"{name}/{relative}" if name else relative)
        if entry is None or entry.blob != id_of(content):
            where = printable(f"{name}/{relative}" if name else relative)
            raise SkillEditedError(f"{where}: was edited meanwhile, so the change is not made")


def set_file(state: dict[str, Entry], name: str, relative: str, blob: str | None) -> None:
    """Set or remove one file of a skill.

    Raises:
        HistoryError: the path leaves the skill, or is one that is never recorded.
    """
    parts = relative.split("/")
    if any(part in {"", ".", ".."} or "\0" in part or is_left_out(part) for part in parts):
        raise HistoryError(f"{relative[:200]!r}: expected the path of a file in the skill's folder")
    path = f"{name}/{relative}" if name else relative
    old = state.get(path)
    if blob is None:
        state.pop(path, None)
        return
    above = [state.get(folder) for folder in parents_of(path)]
    if any(each is not None and each.kind is not Kind.FOLDER for each in (*above,)) or (
        old is not None and old.kind is not Kind.FILE
    ):
        raise HistoryError(f"{relative[:200]!r}: is a folder or a link, or lies below a link or a file")
    state[path] = Entry(Kind.FILE, FILE_MODE if old is None else old.mode, blob)
    add_folders(state, path)


def add_folders(state: dict[str, Entry], path: str) -> None:
    """Add the folders above a path that a state does not have."""
    for folder in parents_of(path):
        state.setdefault(folder, Entry(Kind.FOLDER, FOLDER_MODE))
