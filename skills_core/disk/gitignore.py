"""Leave out of a source what git ignores, on request (`Source.gitignore`).

Rules: gitignore(5). The file nearest to a path that says anything about it decides; what lies in a folder that is
ignored is never looked at. Also read are the files above the source up to the root of the repository, and its
`info/exclude`; the user's own global file is not. Where a file of rules exists and cannot be read, all that it may
speak of is left out, and its folder's listing says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.disk.files import Location
from skills_core.disk.folders import Listing
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pathspec import GitIgnoreSpec

    from skills_core.disk.files import Reader

__all__ = ["FILE_NAME", "GitIgnore"]

FILE_NAME = ".gitignore"

_MAX_SIZE = 1024 * 1024

_NO_RULES = frozenset({Reason.SYMLINK, Reason.SPECIAL_FILE})
# What git does not read rules from either: a link, a folder of that name.

_ALL_WITHIN = re.compile(r"/\*\*\s*$")


class _UnreadableRulesError(Exception):
    """Rules exist and cannot be read, so what they say of a path is not known."""


class GitIgnore:
    """The rules of one source during one scan; each file is read when its folder is first asked about."""

    def __init__(self, root: Path, reader: Reader, locate: Callable[[str], Location]) -> None:
        """Read by `reader` where `locate` says that a folder of the source is."""
        self._reader = reader
        self._locate = locate
        self._specs: dict[str, GitIgnoreSpec | _UnreadableRulesError | None] = {}
        self._above = list(_specs_above(root))

    def without_ignored(self, folder: str, listing: Listing) -> Listing:
        """Return the listing of a folder without what git ignores in it."""
        try:
            return Listing(
                tuple(file for file in listing.files if not self._is_ignored(folder, file[0])),
                tuple(name for name in listing.folders if not self._is_ignored(folder, f"{name}/")),
                tuple(each for each in listing.refused if not self._is_ignored(folder, each[0])),
                listing.links,
            )
        except _UnreadableRulesError:
            # What the rules hide is not to be served, and nothing tells what that is.
            return Listing(refused=((FILE_NAME, Reason.UNREADABLE),))

    def _is_ignored(self, folder: str, name: str) -> bool:
        path = f"{folder}/{name}" if folder else name
        for base, spec in self._nearest_first(folder):
            said = spec.check_file(path[len(base) :]).include
            if said is not None:
                return said
        for prefix, above in self._above:
            if isinstance(above, _UnreadableRulesError):
                raise above
            said = above.check_file(prefix + path).include
            if said is not None:
                return said
        return False

    def _nearest_first(self, folder: str) -> Iterator[tuple[str, GitIgnoreSpec]]:
        """Yield the rules of a folder and those above it, with the prefix that paths within the source lose there."""
        while True:
            spec = self._spec(folder)
            if isinstance(spec, _UnreadableRulesError):
                raise spec
            if spec is not None:
                yield f"{folder}/" if folder else "", spec
            if not folder:
                return
            folder = folder.rpartition("/")[0]

    def _spec(self, folder: str) -> GitIgnoreSpec | _UnreadableRulesError | None:
        if folder not in self._specs:
            root, relative = self._locate(folder)
            location = Location(root, f"{relative}/{FILE_NAME}" if relative else FILE_NAME)
            try:
                raw, _ = self._reader.read(location, _MAX_SIZE)
            except FileRefusedError as error:
                absent = error.absent or error.reason in _NO_RULES
                self._specs[folder] = None if absent else _UnreadableRulesError(str(error))
            else:
                self._specs[folder] = _parsed(raw)
        return self._specs[folder]


def _specs_above(root: Path) -> Iterator[tuple[str, GitIgnoreSpec | _UnreadableRulesError]]:
    """Yield the rules above the root of a source, the nearest first, as far as its repository goes.

    Each comes with the prefix that paths within the source have there. Rules by which the root itself is ignored are
    left out: whoever made it a source meant it.
    """
    folders = [root, *root.parents]
    top = next((number for number, folder in enumerate(folders) if (folder / ".git").exists()), None)
    if top is None:
        return
    files = [(folder, folder / FILE_NAME) for folder in folders[1 : top + 1]]
    for folder, file in [*files, (folders[top], folders[top] / ".git" / "info" / "exclude")]:
        try:
            raw = file.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue
        except OSError as error:
            yield "", _UnreadableRulesError(str(error))
            return
        prefix, spec = "".join(f"{part}/" for part in root.relative_to(folder).parts), _parsed(raw)
        if not (prefix and spec.check_file(prefix).include):
            yield prefix, spec


def _parsed(raw: bytes) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - few ask for it, and each start would pay for it

    # To the library the first form means the folder itself as well; to git it is all that lies in the folder.
    lines = (_ALL_WITHIN.sub("/**/*", line) for line in raw.decode("utf-8", "replace").splitlines())
    return GitIgnoreSpec.from_lines(lines)
