"""Leave out of a source what git ignores, on request (`Source.gitignore`).

Rules: gitignore(5). The file nearest to a path that says anything about it decides; what lies in a folder that is
ignored is never looked at. Also read are the files above the source up to the root of the repository, and its
`info/exclude`; the user's own global file is not.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.disk.bounded import read_bounded
from skills_core.disk.files import Location
from skills_core.disk.folders import Listing
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pathspec import GitIgnoreSpec

    from skills_core.disk.files import Reader

__all__ = ["FILE_NAME", "UNUSABLE_RULES", "GitIgnore"]

FILE_NAME = ".gitignore"

UNUSABLE_RULES = "none of these rules count; expected a regular file of at most 128 KiB and a few thousand patterns"

_MAX_SIZE = 128 * 1024
# People write a few hundred lines. What compiles them takes megabytes for thousands.

_ALL_WITHIN = re.compile(r"/\*\*\s*$")


class GitIgnore:
    """The rules of one source during one scan; each file is read when its folder is first asked about."""

    def __init__(self, root: Path, reader: Reader, locate: Callable[[str], Location]) -> None:
        """Read by `reader` where `locate` says that a folder of the source is."""
        self._reader = reader
        self._locate = locate
        self._specs: dict[str, GitIgnoreSpec | None] = {}
        self._unused: dict[str, tuple[str, ...]] = {}
        self._unused_above: list[str] = []
        self._above = list(_specs_above(root, self._unused_above))

    def without_ignored(self, folder: str, listing: Listing) -> Listing:
        """Return the listing of a folder without what git ignores in it."""
        kept = Listing(
            tuple(file for file in listing.files if not self._is_ignored(folder, file[0])),
            tuple(name for name in listing.folders if not self._is_ignored(folder, f"{name}/")),
            tuple(each for each in listing.refused if not self._is_ignored(folder, each[0])),
            listing.links,
        )
        self._spec(folder)
        unused = [*self._unused.get(folder, ()), *(() if folder else self._unused_above)]
        return replace(kept, refused=(*kept.refused, *((name, Reason.INVALID_CONFIGURATION) for name in unused)))

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
                spec = _parsed(raw)
            except FileRefusedError:
                spec = None
            self._specs[folder] = spec
            if spec is None and _is_there(location):
                self._unused[folder] = (FILE_NAME,)
        return self._specs[folder]


def _is_there(location: Location) -> bool:
    try:
        location.lstat()
    except OSError as error:
        return error.errno not in {errno.ENOENT, errno.ENOTDIR}
    return True


def _specs_above(root: Path, unused: list[str]) -> Iterator[tuple[str, GitIgnoreSpec]]:
    """Yield the rules above the root of a source, the nearest first, as far as its repository goes.

    To `unused` are added the paths, from the root, of those that cannot be used.

    Each comes with the prefix that paths within the source have there. Rules by which the root itself is ignored are
    left out: whoever made it a source meant it.
    """
    folders = [root, *root.parents]
    top = next((number for number, folder in enumerate(folders) if os.path.exists(folder / ".git")), None)  # noqa: PTH110 - it may not be ours to look into
    if top is None:
        return
    files = [(folder, folder / FILE_NAME) for folder in folders[1 : top + 1]]
    for folder, file in [*files, (folders[top], folders[top] / ".git" / "info" / "exclude")]:
        try:
            raw = read_bounded(file, _MAX_SIZE)
            if raw is None:
                continue
            spec = _parsed(raw)
        except FileRefusedError:
            spec = None
        prefix = "".join(f"{part}/" for part in root.relative_to(folder).parts)
        if spec is None:
            unused.append(os.path.relpath(file, root).replace(os.sep, "/"))
        elif not (prefix and spec.check_file(prefix).include):
            yield prefix, spec


def _parsed(raw: bytes) -> GitIgnoreSpec | None:
    """Return the rules in a file, None where they are too many to be compiled."""
    # To the library the first form means the folder itself as well; to git it is all that lies in the folder.
    lines = [_ALL_WITHIN.sub("/**/*", line) for line in raw.decode("utf-8", "replace").splitlines()]
    # To git a line that is no pattern matches nothing; the library refuses the whole file for it.
    return _compiled(lines) or _compiled([line for line in lines if _compiled([line])])


def _compiled(lines: list[str]) -> GitIgnoreSpec | None:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - few ask for it, and each start would pay for it

    try:
        # RE2 matches in linear time whatever a stranger wrote; Python's own patterns do not.
        return GitIgnoreSpec.from_lines(lines, backend="re2")
    except Exception:  # noqa: BLE001 - errors of its own, of `re` and of RE2, which have no root in common
        return None
