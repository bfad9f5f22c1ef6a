"""Where links lead: which a source follows, and which of its paths lead to a place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from skills_core.disk.files import Fingerprint, Location
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE, is_ignored
from skills_core.errors import Fault, fault_of

_NOWHERE = frozenset({Fault.ABSENT, Fault.REFUSED})
# The link is broken or circular.


def follow(name: str, above: Sequence[Location], *, may_leave: bool) -> tuple[Location, Fingerprint | None] | None:
    """Return the target of the link `name`, None if the link may not be followed; a folder has no fingerprint.

    `above` are the folders on the path to the link, ending with the one that contains it. The target must be below the
    root of that folder; with `may_leave` it may also be a skill folder elsewhere. Ignored names, special files, and
    folders of `above` (an endless cycle) are refused.

    Raises:
        OSError: the system cannot resolve the link.
    """
    here = above[-1]
    try:
        path = Path(os.path.realpath(here.path / name, strict=True))
        status = path.stat()
    except ValueError:
        return None
    except OSError as error:
        if fault_of(error) in _NOWHERE:
            return None
        raise
    if stat.S_ISREG(status.st_mode):
        location = _inside(path, here.root)
        return (location, Fingerprint.of(status)) if location else None
    if not stat.S_ISDIR(status.st_mode) or any(folder.path.is_relative_to(path) for folder in above):
        return None
    location = _inside(path, here.root)
    if location is None and may_leave and _is_skill(path) and not path.is_relative_to(here.root):
        location = Location(path, "")
    return (location, None) if location else None


def _inside(path: Path, root: Path) -> Location | None:
    if not path.is_relative_to(root):
        return None
    relative = path.relative_to(root)
    return None if any(map(is_ignored, relative.parts)) else Location(root, relative.as_posix())


def _is_skill(folder: Path) -> bool:
    return any(map(_is_file, (folder / MAIN_FILE, folder / MAIN_FILE_LOWERCASE)))


def _is_file(path: Path) -> bool:
    # `Path.is_file` reports some system errors as absence; which ones depends on the version of Python.
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        if fault_of(error) in _NOWHERE:
            return False
        raise


class LinkIndex:
    """Looks up the followed links of a source by their targets."""

    def __init__(self, links: Iterable[tuple[str, Location]] = ()) -> None:
        """Index `links`, pairs of a path in the source and its target."""
        self._leading_to: dict[Path, list[str]] = {}
        self._leading_below: dict[Path, list[str]] = {}
        self.roots: frozenset[Path] = frozenset(target.root for _, target in links)
        for path, target in links:
            self._leading_to.setdefault(target.path, []).append(path)
            for folder in target.path.parents:
                if not folder.is_relative_to(target.root):
                    break
                self._leading_below.setdefault(folder, []).append(path)

    def links_to(self, real: Path) -> Iterator[str]:
        """Yield every link in the source whose target is `real` or something in it."""
        yield from self._leading_below.get(real, ())
        yield from self._leading_to.get(real, ())

    def paths_through(self, folder: Path) -> Iterator[str]:
        """Yield every path in the source that reaches `folder` through a link to it or to a folder above."""
        if not self._leading_to:
            return
        for each in (folder, *folder.parents):
            for path in self._leading_to.get(each, ()):
                inside = folder.relative_to(each).as_posix()
                yield path if inside == "." else f"{path}/{inside}"
