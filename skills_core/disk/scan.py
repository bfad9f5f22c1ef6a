"""Walk a source's folders: which files lie where, without reading any of them.

A `Tree` maps each folder, as a `/`-separated path relative to the root (`""` is the root itself), to its
`Listing`. `scan` walks everything; `rescan` looks again only where something changed, so that a change costs
what it touches. Links are followed where the source says so and `links` allows it, and then a path of the tree is
not where the bytes are: `locate` tells. Hidden names and leftovers of editors are never seen.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.disk.files import Location, Reader, is_absence
from skills_core.disk.folders import Listing, find_main, list_folder
from skills_core.disk.gitignore import GitIgnore
from skills_core.disk.links import follow

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from skills_core.disk.files import Fingerprint
    from skills_core.sources import Source

__all__ = ["Tree", "locate", "parent", "rescan", "scan"]


class Tree(dict[str, Listing]):
    """What the folders of a source hold, by their paths.

    `bounded` tells that a bound cut the scan short. `entries` counts the names that were read; those of a folder that
    was listed twice count twice.
    """

    bounded = False
    entries = 0


class _TooManyEntriesError(Exception):
    """The bound for names in all folders is reached."""


_MAX_LINKS = 2
# Folders that are links, on one path: folders that link to one another have paths beyond counting.


def parent(folder: str) -> str:
    """Return the folder above a relative path; the root for a name without `/`."""
    return folder.rpartition("/")[0]


def locate(source: Source, tree: Tree, path: str) -> Location:
    """Return where the bytes of a file or folder of the tree are."""
    if not source.follow_symlinks:
        return Location(source.root, path)
    *_, location = _trail(source, tree, path)
    return location


def scan(source: Source, *, fingerprints: bool = True) -> Tree:
    """Walk the whole source. A missing root gives an empty tree.

    So does one that is barred.

    `fingerprints` cost a call to the system for each file; a first load, which reads all files, has no use for them.
    """
    if source.barred:
        return Tree()
    with Reader() as reader:
        walk = _Walk(source, reader, fingerprints=fingerprints)
        walk.down("")
        return walk.tree


def rescan(source: Source, tree: Tree, changed: Iterable[str]) -> tuple[Tree, frozenset[str]]:
    """Look again at `changed` paths (relative, files or folders, existing or gone).

    A changed folder is walked again as a whole: one that was moved away and replaced reports nothing of what
    is inside. Returns the new tree and the folders that were looked at again, those that vanished included.
    """
    paths = sorted(set(changed))
    # A bound that cut the scan short may cut elsewhere now.
    if not tree.bounded and "" not in paths and "" in tree:
        with Reader() as reader:
            walk = _Walk(source, reader, Tree(tree))
            walk.tree.entries = tree.entries
            # Where a bound is reached, a scan from the root tells whether it really is, and cuts what is deepest.
            if walk.again(paths, tree) and not walk.tree.bounded:
                return walk.tree, frozenset(walk.touched)
    fresh = scan(source)
    return fresh, frozenset(tree) | frozenset(fresh)


@dataclass(slots=True)
class _Walk:
    """One pass over a source: the tree as far as it is known, and the folders that were looked at or vanished."""

    source: Source
    reader: Reader
    tree: Tree = field(default_factory=Tree)
    touched: set[str] = field(default_factory=set)
    fingerprints: bool = True
    gitignore: GitIgnore | None = None

    def __post_init__(self) -> None:
        if self.source.gitignore:
            self.gitignore = GitIgnore(self.source.root, self.reader, self._locate)

    def _locate(self, folder: str) -> Location:
        return locate(self.source, self.tree, folder)

    def again(self, paths: Iterable[str], before: Tree) -> bool:
        """Look again at paths; False where a folder above one is gone, and so the tree is not to be trusted."""
        for path in paths:
            known = self._nearest_known(path)
            if known not in self.touched and not self._relist(known):
                return False
            if path in before and path in self.tree and path not in self.touched:
                self._forget(path)
                self.down(path)
        if not self.source.follow_symlinks:
            return True
        # Where links may lead depends on what lies elsewhere.
        linking = sorted(folder for folder, listing in self.tree.items() if _has_links(listing))
        return all(self._relist(folder) for folder in linking if folder in self.tree and folder not in self.touched)

    def down(self, start: str) -> None:
        """Walk from `start` downwards, within the source's bounds, breadth first so that a bound cuts the deepest."""
        level = [start]
        depth = start.count("/") + 1 if start else 0
        while level:
            below: list[str] = []
            beyond: list[str] = []
            for folder in level:
                if depth > self.source.bounds.depth or len(self.tree) >= self.source.bounds.folders:
                    beyond.append(folder)
                    continue
                try:
                    listing = self._list(folder)
                except _TooManyEntriesError:
                    beyond.append(folder)
                    continue
                except OSError as error:
                    self._mark_lost(folder, error)
                    continue
                self.tree[folder] = listing
                self.touched.add(folder)
                below += [_join(folder, name) for name in listing.folders]
            self._leave_out(beyond)
            level = below
            depth += 1

    def _nearest_known(self, path: str) -> str:
        """Return the nearest folder above `path` that the tree has."""
        folder = parent(path)
        while folder and folder not in self.tree:
            folder = parent(folder)
        return folder

    def _relist(self, folder: str) -> bool:
        """List one folder again; walk subfolders that are new, forget those that are gone.

        Returns False where the folder itself is gone, or a bound is reached.
        """
        self.touched.add(folder)
        before = self.tree[folder]
        try:
            after = self._list(folder)
        except (OSError, _TooManyEntriesError):
            return False
        self.tree[folder] = after
        led, leads, left = dict(before.links), dict(after.links), frozenset(after.folders)
        for name in before.folders:
            if name not in left or led.get(name) != leads.get(name):
                self._forget(_join(folder, name))
        for name in after.folders:
            if _join(folder, name) not in self.tree:
                self.down(_join(folder, name))
        return True

    def _forget(self, folder: str) -> None:
        waiting = [folder]
        while waiting:
            current = waiting.pop()
            self.touched.add(current)
            listing = self.tree.pop(current, None)
            if listing is not None:
                waiting += [_join(current, name) for name in listing.folders]

    def _leave_out(self, folders: Iterable[str]) -> None:
        """Note in the folders above that these, which lie beyond a bound, were not looked into."""
        beyond: dict[str, list[str]] = {}
        for folder in folders:
            above, _, name = folder.rpartition("/")
            beyond.setdefault(above, []).append(name)
        for above, names in beyond.items():
            self.tree.bounded = True
            self._drop(above, names, Reason.SCAN_LIMIT)

    def _mark_lost(self, folder: str, error: OSError) -> None:
        """Note in the folder above that something else took the place of this one; one that was deleted is absent."""
        if folder:
            above, _, name = folder.rpartition("/")
            self._drop(above, [name], None if error.errno == errno.ENOENT else Reason.UNREADABLE)

    def _drop(self, above: str, names: Iterable[str], reason: Reason | None) -> None:
        """Take folders out of the listing of the one above; with a reason, list them there as refused."""
        listing, dropped = self.tree.get(above, Listing()), frozenset(names)
        refused = (*listing.refused, *((name, reason) for name in names)) if reason else listing.refused
        kept = tuple(name for name in listing.folders if name not in dropped)
        self.tree[above] = Listing(listing.files, kept, refused, listing.links)

    def _counted(self, entries: Iterable[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        """Pass on entries as long as there may be more.

        Raises:
            _TooManyEntriesError: the bound is reached.
        """
        for entry in entries:
            if self.tree.entries >= self.source.bounds.entries:
                raise _TooManyEntriesError
            self.tree.entries += 1
            yield entry

    def _list(self, folder: str) -> Listing:
        """List one folder.

        Raises:
            OSError: it is not there, or no longer a folder.
            _TooManyEntriesError: there are more names than the bounds of the source allow.
        """
        try:
            with self.reader.entries(self._locate(folder)) as entries:
                listing = list_folder(self._counted(entries), fingerprints=self.fingerprints)
        except OSError as error:
            if is_absence(error):
                raise
            return Listing(refused=(("", Reason.UNREADABLE),))
        if self.gitignore is not None:
            listing = self.gitignore.without_ignored(folder, listing)
        level = folder.count("/") + 1 if folder else 0
        if level < len(self.source.below):
            wanted = self.source.below[level]
            return Listing(folders=tuple(name for name in listing.folders if wanted in {"*", name}))
        return self._with_links(folder, listing) if self.source.follow_symlinks and listing.refused else listing

    def _with_links(self, folder: str, listing: Listing) -> Listing:
        """Return the listing with those of its links followed that may be."""
        steps = [folder[: match.start()] for match in re.finditer("/", folder)] + [folder] if folder else []
        followed = sum(step.rpartition("/")[2] in dict(self.tree[parent(step)].links) for step in steps)
        may_leave = not followed and not any(map(find_main, (*(self.tree[parent(step)] for step in steps), listing)))
        above = tuple(_trail(self.source, self.tree, folder))
        files, folders = list(listing.files), list(listing.folders)
        refused: list[tuple[str, Reason]] = []
        links: list[tuple[str, Location]] = []
        for name, reason in listing.refused:
            if reason is not Reason.SYMLINK:
                refused.append((name, reason))
            elif followed >= _MAX_LINKS or (target := follow(name, above, may_leave=may_leave)) is None:
                refused.append((name, Reason.SYMLINK_OUTSIDE))
            else:
                links.append((name, target.location))
                if target.fingerprint is None:
                    folders.append(name)
                else:
                    files.append((name, target.fingerprint))
        return Listing(tuple(sorted(files, key=_name)), tuple(sorted(folders)), tuple(refused), tuple(links))


def _name(file: tuple[str, Fingerprint | None]) -> str:
    return file[0]


def _has_links(listing: Listing) -> bool:
    return bool(listing.links) or any(reason is Reason.SYMLINK_OUTSIDE for _, reason in listing.refused)


def _trail(source: Source, tree: Tree, path: str) -> Iterator[Location]:
    """Yield where the root is, and where each step of `path` leads from there."""
    location, folder = Location(source.root, ""), ""
    yield location
    for name in path.split("/") if path else ():
        links = dict(tree[folder].links) if folder in tree else {}
        location = links.get(name) or Location(location.root, _join(location.relative, name))
        folder = _join(folder, name)
        yield location


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
