"""A private copy of a skill's files with verified digests: what runs is what was hashed.

The files on disk may change at any time, even between check and use. So each call makes a new copy, and runs the script
in it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.disk.files import Reader, open_new
from skills_core.disk.replacement import remove_tree
from skills_core.errors import FileRefusedError, SkillChangedError
from skills_core.skills.withheld_files import files_for_models, is_eval_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.disk.files import Location
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

_READ_ONLY = 0o500
# Scripts call one another, and not every archive keeps the executable bit.


class PrivateCopy:
    """A folder for one call that only this user can enter: `skill` is the copy, `scratch` an empty folder."""

    def __init__(self, skill: Skill, *, with_evals: bool = False) -> None:
        """Create the folder, with a copy of the files of `skill`; of eval files only `with_evals`.

        Raises:
            SkillChangedError: a file on disk is not the one that was loaded.
            OSError: the files cannot be copied, for example because the disk is full.
        """
        self.root = Path(tempfile.mkdtemp(prefix="skillserve-"))
        self.skill, self.scratch = self.root / "skill", self.root / "scratch"
        try:
            self.scratch.mkdir()
            copy_skill(skill, self.skill, with_evals=with_evals)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder with everything in it; log what cannot be removed."""
        if left := remove_tree(self.root):
            logger.warning("the folder of a script cannot be removed: %s: %s", self.root, one_line(left))


def copy_skill(skill: Skill, target: Path, *, with_evals: bool = False, read_only: bool = True) -> None:
    """Copy the files of a skill to the new folder `target`; of eval files only `with_evals`.

    Raises:
        SkillChangedError: a file on disk is not the one that was loaded.
        OSError: the files cannot be copied.
    """
    content = skill.content
    files = (content.files if with_evals else files_for_models(content)).values()
    empty = (folder for folder in content.folders if with_evals or not is_eval_path(content, f"{folder}/"))
    folders = sorted({"", *empty, *(above for file in files for above in _parent_folders(file.path))})
    for folder in folders:
        os.mkdir(f"{target}/{folder}")  # noqa: PTH102 - a skill may have thousands, and `Path` is slow
    changed = []
    with Reader() as reader:
        for file in files:
            location = skill.location(file)
            raw = _verified_bytes(file.digest, reader, location)
            if raw is None:
                changed.append(location.path)
            else:
                with open(f"{target}/{file.path}", "xb", opener=_create if read_only else _create_writable) as copy:
                    copy.write(raw)
    if changed:
        raise SkillChangedError(skill.key, tuple(changed))
    for folder in folders if read_only else ():
        os.chmod(f"{target}/{folder}", _READ_ONLY)  # noqa: PTH101 - likewise


def _parent_folders(path: str) -> Iterator[str]:
    """Yield the folders that contain a file, relative to the skill."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _verified_bytes(digest: str, reader: Reader, location: Location) -> bytes | None:
    """Return the bytes of a file, None if they do not have the digest or cannot be read."""
    try:
        raw, _ = reader.read(location)
    except FileRefusedError:
        return None
    return raw if digest == "sha256:" + hashlib.sha256(raw).hexdigest() else None


def _create(path: str, _: int) -> int:
    return open_new(path, _READ_ONLY)


def _create_writable(path: str, _: int) -> int:
    return open_new(path, 0o700)
