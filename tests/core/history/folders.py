"""Folders as values, and histories of them."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from skills_core.history.history import History
from skills_core.history.store import open_history

Content = bytes | None
"""The bytes of a file; None stands for an empty folder."""

SKILL = b"---\nname: %s\ndescription: Does it.\n---\nStep %d.\r\n"


def write(root: Path, files: Mapping[str, Content]) -> None:
    """Make a folder hold just these files."""
    if root.exists():
        shutil.rmtree(root)
    root.mkdir(parents=True)
    for name, content in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            place.mkdir(exist_ok=True)
        else:
            place.write_bytes(content)


def read(root: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """Return everything in a folder: the mode, and the bytes, the target of a link, or None for a folder."""
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            place = Path(folder, name)
            status = place.lstat()
            content: bytes | str | None = None
            if stat.S_ISLNK(status.st_mode):
                content = str(place.readlink())
            elif stat.S_ISREG(status.st_mode):
                content = place.read_bytes()
            found[place.relative_to(root).as_posix()] = (stat.S_IMODE(status.st_mode), content)
    return found


def history_of(source: Path) -> History:
    return open_history(source, source.parent / "state")
