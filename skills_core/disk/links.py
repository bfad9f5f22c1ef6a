"""Where a symbolic link may lead, for sources that follow links (`Source.follow_symlinks`).

A link is resolved once, when its folder is listed, to a target that is free of links: a location with a root that
must not be left. Reading starts at that root and follows no link any more, so that a link which is turned elsewhere
meanwhile leads nowhere. The root is that of the folder in which the link stands; only a link to a skill folder
outside of the source, the way people link skills into place, makes its target a root of its own.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.disk.files import Fingerprint, Location
from skills_core.disk.names import MAIN_FILE, OTHER_SPELLING, is_ignored
from skills_core.system_faults import Fault, fault_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["LinkIndex", "Target", "follow"]


_NOWHERE = frozenset({Fault.ABSENT, Fault.REFUSED})
# It dangles, or goes in circles.


@dataclass(frozen=True, slots=True)
class Target:
    """What a link leads to; a file has a fingerprint, a folder has none."""

    location: Location
    fingerprint: Fingerprint | None


def follow(name: str, above: Sequence[Location], *, may_leave: bool) -> Target | None:
    """Return what the link `name` leads to, None where it may not lead there.

    `above` are the folders on the way to the link, that in which it stands last. A link stays below the root of
    that one; with `may_leave` it may lead to a skill folder elsewhere as well. It never leads to what is ignored,
    to a special file, or back to a folder on the way, which would have no end.

    Raises:
        OSError: the system cannot tell where it leads.
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
        return Target(location, Fingerprint.of(status)) if location else None
    if not stat.S_ISDIR(status.st_mode) or any(folder.path.is_relative_to(path) for folder in above):
        return None
    location = _inside(path, here.root)
    if location is None and may_leave and _is_skill(path) and not path.is_relative_to(here.root):
        location = Location(path, "")
    return Target(location, None) if location else None


def _inside(path: Path, root: Path) -> Location | None:
    if not path.is_relative_to(root):
        return None
    relative = path.relative_to(root)
    return None if any(map(is_ignored, relative.parts)) else Location(root, relative.as_posix())


def _is_skill(folder: Path) -> bool:
    return any(map(_is_file, (folder / MAIN_FILE, folder / OTHER_SPELLING)))


def _is_file(path: Path) -> bool:
    # `Path.is_file` takes faults of the system for an absence; which, depends on the version of Python.
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        if fault_of(error) in _NOWHERE:
            return False
        raise


class LinkIndex:
    """The links of a source that were followed, looked up by where they lead."""

    def __init__(self, links: Iterable[tuple[str, Location]] = ()) -> None:
        """`links` pair the path in the source with the target."""
        self._leading_to: dict[Path, list[str]] = {}
        self._leading_below: dict[Path, list[str]] = {}
        self.roots: frozenset[Path] = frozenset(target.root for _, target in links)
        for path, target in links:
            self._leading_to.setdefault(target.path, []).append(path)
            for folder in target.path.parents:
                if not folder.is_relative_to(target.root):
                    break
                self._leading_below.setdefault(folder, []).append(path)

    def paths_of(self, real: Path) -> Iterator[str]:
        """Yield every path in the source by which `real`, or something in it, is reached through a link."""
        yield from self._leading_below.get(real, ())
        for folder in (real, *real.parents):
            for path in self._leading_to.get(folder, ()):
                inside = real.relative_to(folder).as_posix()
                yield path if inside == "." else f"{path}/{inside}"
