"""Walk a source's folders: which files lie where, without reading any of them.

A `Tree` maps each folder, as a `/`-separated path relative to the root (`""` is the root itself), to its
`Listing`. `scan` walks everything; `rescan` looks again only where something changed, so that a change costs
what it touches. Links are followed where the source says so and `links` allows it, and then a path of the tree is
not where the bytes are: `locate` tells. Hidden names and leftovers of editors are never seen.

A folder that the system cannot list is not gone: it keeps the listing that it had, and the tree names it as unread.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import Entries, Listing, find_main, list_folder, reason_for, unlisted
from skills_core.disk.gitignore import GitIgnore
from skills_core.disk.links import follow
from skills_core.system_faults import is_absence

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from skills_core.sources import Source

__all__ = ["Tree", "join", "locate", "parent", "rescan", "scan"]


class Tree(dict[str, Listing]):
    """What the folders of a source hold, by their paths.

    `bounded` tells that a bound cut the scan short. `entries` counts the names that were read; those of a folder that
    was listed twice count twice. `faulty` are the folders that have something unread.
    """

    bounded = False
    entries = 0

    def __init__(self, known: Tree | None = None) -> None:
        """Begin with what is known, or with nothing."""
        super().__init__(known or ())
        self.faulty: set[str] = set(known.faulty) if known is not None else set()

    @property
    def unread(self) -> frozenset[str]:
        """The paths of the files and folders that the system could not look at."""
        return frozenset(join(folder, name) for folder in self.faulty for name in self[folder].unread)

    def enter(self, folder: str, listing: Listing) -> None:
        """Set what a folder holds."""
        self[folder] = listing
        if listing.unread:
            self.faulty.add(folder)
        else:
            self.faulty.discard(folder)

    def drop(self, folder: str) -> Listing | None:
        """Forget a folder; return what it held."""
        self.faulty.discard(folder)
        return self.pop(folder, None)


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


def scan(source: Source, before: Tree | None = None, *, fingerprints: bool = True) -> Tree:
    """Walk the whole source. A missing root gives an empty tree; `before` is what was known of it.

    So does one that is barred.

    `fingerprints` cost a call to the system for each file; a first load, which reads all files, has no use for them.
    """
    if source.barred:
        return Tree()
    with Reader() as reader:
        walk = _Walk(source, reader, before or Tree(), fingerprints=fingerprints)
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
            walk = _Walk(source, reader, tree, Tree(tree))
            walk.tree.entries = tree.entries
            # Where a bound is reached, a scan from the root tells whether it really is, and cuts what is deepest.
            if walk.again(paths) and not walk.tree.bounded:
                return walk.tree, frozenset(walk.touched)
    fresh = scan(source, tree)
    return fresh, frozenset(tree) | frozenset(fresh)


@dataclass(slots=True)
class _Walk:
    """One pass over a source: `before` is the tree as it was, `touched` are folders that were looked at or vanished."""

    source: Source
    reader: Reader
    before: Tree
    tree: Tree = field(default_factory=Tree)
    touched: set[str] = field(default_factory=set)
    fingerprints: bool = True
    gitignore: GitIgnore | None = None

    def __post_init__(self) -> None:
        if self.source.gitignore:
            self.gitignore = GitIgnore(self.source.root, self.reader, self._locate)

    def _locate(self, folder: str) -> Location:
        return locate(self.source, self.tree, folder)

    def again(self, paths: Iterable[str]) -> bool:
        """Look again at paths; False where a folder above one is gone, and so the tree is not to be trusted."""
        for path in paths:
            known = self._nearest_known(path)
            if known not in self.touched and not self._relist(known):
                return False
            if path in self.before and path in self.tree and path not in self.touched:
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
                self.tree.enter(folder, listing)
                self.touched.add(folder)
                below += [join(folder, name) for name in listing.folders]
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
        self.tree.enter(folder, after)
        led, leads, left = dict(before.links), dict(after.links), frozenset(after.folders)
        for name in before.folders:
            if name not in left or led.get(name) != leads.get(name):
                self._forget(join(folder, name))
        for name in after.folders:
            if join(folder, name) not in self.tree:
                self.down(join(folder, name))
        return True

    def _forget(self, folder: str) -> None:
        waiting = [folder]
        while waiting:
            current = waiting.pop()
            self.touched.add(current)
            listing = self.tree.drop(current)
            if listing is not None:
                waiting += [join(current, name) for name in listing.folders]

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
        """Note in the folder above that this one is not looked into; one that was deleted is absent."""
        if folder:
            above, _, name = folder.rpartition("/")
            if not is_absence(error):
                self._drop(above, [name], reason_for(error), unread=True)
            else:
                # Something else took its place.
                self._drop(above, [name], None if error.errno == errno.ENOENT else Reason.UNREADABLE)

    def _drop(self, above: str, names: Iterable[str], reason: Reason | None, *, unread: bool = False) -> None:
        """Take folders out of the listing of the one above; with a reason, list them there as refused.

        Those that are `unread` are looked at again by the next scan.
        """
        listing, dropped = self.tree.get(above, Listing()), frozenset(names)
        refused = (*listing.refused, *((name, reason) for name in names)) if reason else listing.refused
        kept = tuple(name for name in listing.folders if name not in dropped)
        again = tuple(sorted({*listing.unread, *dropped})) if unread else listing.unread
        self.tree.enter(above, replace(listing, folders=kept, refused=refused, unread=again))

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
        """List one folder; where the system cannot, what was known of it.

        The root alone is taken for empty where nothing was known of it: of any other folder that would tell whoever
        asks later that nothing lies in it.

        Raises:
            OSError: it is not there, no longer a folder, or was never listed and cannot be.
            _TooManyEntriesError: there are more names than the bounds of the source allow.
        """
        known = self.before.get(folder)
        try:
            with self.reader.entries(self._locate(folder)) as entries:
                counted = self._counted(entries)
                listing = list_folder(counted, fingerprints=self.fingerprints, known=known or Listing())
            if self.gitignore is not None:
                # Without the rules nothing tells what must not be seen.
                listing = self.gitignore.without_ignored(folder, listing)
        except OSError as error:
            if is_absence(error) or (folder and known is None):
                raise
            return unlisted(known, error)
        level = folder.count("/") + 1 if folder else 0
        if level < len(self.source.below):
            wanted = self.source.below[level]
            return Listing(
                folders=tuple(name for name in listing.folders if wanted in {"*", name}),
                unread=tuple(name for name in listing.unread if wanted in {"*", name}),
            )
        return self._with_links(folder, listing) if self.source.follow_symlinks and listing.refused else listing

    def _with_links(self, folder: str, listing: Listing) -> Listing:
        """Return the listing with those of its links followed that may be."""
        steps = [folder[: match.start()] for match in re.finditer("/", folder)] + [folder] if folder else []
        followed = sum(step.rpartition("/")[2] in dict(self.tree[parent(step)].links) for step in steps)
        may_leave = not followed and not any(map(find_main, (*(self.tree[parent(step)] for step in steps), listing)))
        above = tuple(_trail(self.source, self.tree, folder))
        plain = [each for each in listing.refused if each[1] is not Reason.SYMLINK]
        found = Entries(
            self.before.get(folder) or Listing(),
            list(listing.files),
            list(listing.folders),
            plain,
            list(listing.links),
            list(listing.unread),
        )
        for name, reason in listing.refused:
            if reason is Reason.SYMLINK:
                try:
                    target = follow(name, above, may_leave=may_leave) if followed < _MAX_LINKS else None
                except OSError as error:
                    found.keep(name, error)
                    continue
                if target is None:
                    found.refused.append((name, Reason.SYMLINK_OUTSIDE))
                    continue
                found.links.append((name, target.location))
                if target.fingerprint is None:
                    found.folders.append(name)
                else:
                    found.files.append((name, target.fingerprint))
        return found.listing()


def _has_links(listing: Listing) -> bool:
    return bool(listing.links) or any(reason is Reason.SYMLINK_OUTSIDE for _, reason in listing.refused)


def _trail(source: Source, tree: Tree, path: str) -> Iterator[Location]:
    """Yield where the root is, and where each step of `path` leads from there."""
    location, folder = Location(source.root, ""), ""
    yield location
    for name in path.split("/") if path else ():
        links = dict(tree[folder].links) if folder in tree else {}
        location = links.get(name) or Location(location.root, join(location.relative, name))
        folder = join(folder, name)
        yield location


def join(folder: str, name: str) -> str:
    """Return the path of `name` in a folder; that of the folder for `""`."""
    return f"{folder}/{name}" if folder and name else folder or name
