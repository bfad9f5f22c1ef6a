"""Leave out of a source what git ignores, on request (`Source.gitignore`).

Rules: gitignore(5). The file nearest to a path that says anything about it decides; what lies in a folder that is
ignored is never looked at. Also read are the files above the source up to the root of the repository, and its
`info/exclude`; the user's own global file is not.

A file of rules that is there and cannot be read is not taken for none: what it may hide stays hidden.
"""

from __future__ import annotations

import errno
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.disk.files import Location
from skills_core.errors import FileRefusedError
from skills_core.system_faults import Fault, fault_of, is_absence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pathspec import GitIgnoreSpec

    from skills_core.disk.files import Reader
    from skills_core.disk.folders import Listing

__all__ = ["FILE_NAME", "GitIgnore"]

FILE_NAME = ".gitignore"

_MAX_SIZE = 1024 * 1024

_ALL_WITHIN = re.compile(r"/\*\*\s*$")


class GitIgnore:
    """The rules of one source during one scan; each file is read when its folder is first asked about."""

    def __init__(self, root: Path, reader: Reader, locate: Callable[[str], Location]) -> None:
        """Read by `reader` where `locate` says that a folder of the source is."""
        self._root = root
        self._reader = reader
        self._locate = locate
        self._specs: dict[str, GitIgnoreSpec | None] = {}
        self._specs_above: list[tuple[str, GitIgnoreSpec]] | None = None

    def without_ignored(self, folder: str, listing: Listing) -> Listing:
        """Return the listing of a folder without what git ignores in it.

        Raises:
            OSError: a file of rules is there and cannot be read.
        """
        return replace(
            listing,
            files=tuple(file for file in listing.files if not self._is_ignored(folder, file[0])),
            folders=tuple(name for name in listing.folders if not self._is_ignored(folder, f"{name}/")),
            refused=tuple(each for each in listing.refused if not self._is_ignored(folder, each[0])),
        )

    @property
    def _above(self) -> list[tuple[str, GitIgnoreSpec]]:
        if self._specs_above is None:
            self._specs_above = list(_specs_above(self._root))
        return self._specs_above

    def _is_ignored(self, folder: str, name: str) -> bool:
        path = f"{folder}/{name}" if folder else name
        for base, spec in self._nearest_first(folder):
            said = spec.check_file(path[len(base) :]).include
            if said is not None:
                return said
        for prefix, spec in self._above:
            said = spec.check_file(prefix + path).include
            if said is not None:
                return said
        return False

    def _nearest_first(self, folder: str) -> Iterator[tuple[str, GitIgnoreSpec]]:
        """Yield the rules of a folder and those above it, with the prefix that paths within the source lose there."""
        while True:
            spec = self._spec(folder)
            if spec is not None:
                yield f"{folder}/" if folder else "", spec
            if not folder:
                return
            folder = folder.rpartition("/")[0]

    def _spec(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            root, relative = self._locate(folder)
            location = Location(root, f"{relative}/{FILE_NAME}" if relative else FILE_NAME)
            try:
                raw, _ = self._reader.read(location, _MAX_SIZE)
            except FileRefusedError as error:
                if error.fault in {Fault.DENIED, Fault.PASSING}:
                    number = errno.EACCES if error.fault is Fault.DENIED else errno.EIO
                    message = f"the rules in {FILE_NAME} cannot be read: {error.message}"
                    raise OSError(number, message) from None
                self._specs[folder] = None
            else:
                self._specs[folder] = _parsed(raw)
        return self._specs[folder]


def _specs_above(root: Path) -> Iterator[tuple[str, GitIgnoreSpec]]:
    """Yield the rules above the root of a source, the nearest first, as far as its repository goes.

    Each comes with the prefix that paths within the source have there. Rules by which the root itself is ignored are
    left out: whoever made it a source meant it.
    """
    folders = [root, *root.parents]
    top = next((number for number, folder in enumerate(folders) if _is_there(folder / ".git")), None)
    if top is None:
        return
    files = [(folder, folder / FILE_NAME) for folder in folders[1 : top + 1]]
    for folder, file in [*files, (folders[top], folders[top] / ".git" / "info" / "exclude")]:
        try:
            raw = file.read_bytes()
        except OSError as error:
            if fault_of(error) in {Fault.DENIED, Fault.PASSING}:
                raise
            continue
        prefix, spec = "".join(f"{part}/" for part in root.relative_to(folder).parts), _parsed(raw)
        if not (prefix and spec.check_file(prefix).include):
            yield prefix, spec


def _is_there(path: Path) -> bool:
    # `Path.exists` takes faults of the system for an absence; which, depends on the version of Python.
    try:
        path.stat()
    except OSError as error:
        if not is_absence(error):
            raise
        return False
    return True


def _parsed(raw: bytes) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - few ask for it, and each start would pay for it

    # To the library the first form means the folder itself as well; to git it is all that lies in the folder.
    lines = (_ALL_WITHIN.sub("/**/*", line) for line in raw.decode("utf-8", "replace").splitlines())
    return GitIgnoreSpec.from_lines(lines)
