"""What runs is what was hashed: a private copy of a skill's files, made of bytes that have their digests.

The files on disk may change at any time, also between a look at them and their use. The copy is made anew for each
call, and what is run is in it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.disk.files import Reader
from skills_core.errors import FileRefusedError, SkillChangedError

if TYPE_CHECKING:
    from skills_core.skill import Skill

__all__ = ["PrivateFolder"]

_READ_ONLY = 0o500
# Scripts call one another, and not every archive keeps who may be run.


class PrivateFolder:
    """A folder that only this user can enter, for one call: `skill` is the copy, `scratch` an empty folder."""

    def __init__(self, skill: Skill) -> None:
        """Make the folder, with a copy of the files of `skill`.

        Raises:
            SkillChangedError: a file on the disk is not the one that was loaded.
            OSError: the disk is full, or the like.
        """
        self.root = Path(tempfile.mkdtemp(prefix="skillserve-"))
        self.skill, self.scratch = self.root / "skill", self.root / "scratch"
        try:
            self.scratch.mkdir()
            _copy(skill, self.skill)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove everything, whatever was made of it; what cannot be removed stays."""
        for folder, names, _ in os.walk(self.root):
            # A folder that cannot be written to keeps what is in it.
            for path in (Path(folder, name) for name in ("", *names)):
                with suppress(OSError):
                    if not path.is_symlink():
                        path.chmod(stat.S_IRWXU)
        shutil.rmtree(self.root, onerror=_make_writable)


def _make_writable(remove: object, path: str, _: object) -> None:
    """Try again: on Windows, a file that cannot be written to cannot be removed either."""
    with suppress(OSError):
        if callable(remove) and not Path(path).is_symlink():
            Path(path).chmod(stat.S_IRWXU)
            remove(path)


def _copy(skill: Skill, target: Path) -> None:
    changed = []
    folders = {target, *(target / folder for folder in skill.content.folders)}
    with Reader() as reader:
        for file in skill.content.files.values():
            location = skill.location(file)
            try:
                raw, _ = reader.read(location)
            except FileRefusedError:
                raw = b""
            if file.digest != "sha256:" + hashlib.sha256(raw).hexdigest():
                changed.append(location.path)
                continue
            copy = target / file.path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(raw)
            copy.chmod(_READ_ONLY)
            folders.update(parent for parent in copy.parents if parent.is_relative_to(target))
    if changed:
        raise SkillChangedError(skill.key, tuple(changed))
    for folder in sorted(folders, reverse=True):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(_READ_ONLY)
