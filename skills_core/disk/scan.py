"""Scan a source's folders for their files, without reading any of them.

A `Tree` maps each folder, as a `/`-separated path relative to the root (`""` is the root itself), to its `Listing`.
`scan` walks everything; `rescan` lists only the folders that changed. Links are followed if the source follows links
and `follow` allows the target; then `locate` returns where the bytes of a path are. Ignored names are left out, and so
is the content of workspaces of test results, which hold copies of skills; a root or a skill never counts as such a
workspace. Agenvoy's scheduler skills are left out too.

A folder that the system cannot list keeps its last listing, and the tree names it as unread.

A link is resolved once, when its folder is listed, to a location without links. Reading starts at the root of that
location and follows no links, so that a link changed meanwhile has no effect. The root is that of the folder with the
link; only a link to a skill folder outside of the source, as users link skills into a collection, makes its target a
new root.
"""

from __future__ import annotations

import errno
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.disk.files import UNKNOWN_FINGERPRINT, Fingerprint, Location, Reader
from skills_core.disk.folders import (
    NOT_A_SOURCE,
    SCHEDULES,
    Listing,
    ListingBuilder,
    find_main,
    is_above_schedules,
    list_folder,
    noting_devices,
    reason_for,
    unreadable_listing,
)
from skills_core.disk.gitignore import GitIgnore
from skills_core.disk.links import follow
from skills_core.disk.tree import Tree, join, parent
from skills_core.errors import is_absence

if TYPE_CHECKING:
    import os

    from skills_core.disk.sources import Source


def share_walked(tree: Tree, folder: str) -> float:
    """Return which share of a source a walk has behind it that has just finished `folder`: more than 0, at most 1.

    What lies in the folders beside each other counts alike, so it is an estimate; that of the root, the last one, is 1.
    """
    share, width, above = 0.0, 1.0, ""
    for name in folder.split("/") if folder else ():
        beside = tree[above].folders
        width /= len(beside)
        share += width * beside.index(name)
        above = join(above, name)
    return share + width


class _BoundReachedError(Exception):
    """The bound for folders, or for entries in all folders, is reached."""


_MAX_LINKS = 2
# Linked folders on one path; folders that link to each other have an exponential number of paths.


def locate(source: Source, tree: Tree, path: str) -> Location:
    """Return the location of a file or folder of the tree, with links resolved."""
    if not source.follow_symlinks:
        return Location(source.root, path)
    *_, location = _trail(source, tree, path)
    return location


def scan(
    source: Source,
    before: Tree | None = None,
    *,
    fingerprints: bool = True,
    pause: Callable[[], None] | None = None,
) -> Tree:
    """Scan the whole source; `before` is the last known tree. A missing root, or a barred one, gives an empty tree.

    `fingerprints` cost a system call for each file; a first load, which reads all files, does not need them.
    `pause` is called for each folder, and may block to let others work.
    """
    if source.barred:
        return Tree()
    if before and fingerprints and (known := _brought_up_to_date(source, before, pause)) is not None:
        return known
    with Reader() as reader:
        walk = Walk(source, reader, before or Tree(), fingerprints=fingerprints, pause=pause)
        walk.descend("")
        if walk.is_full:
            walk = Walk(source, reader, before or Tree(), fingerprints=fingerprints, pause=pause)
            walk.scan_breadth_first()
        return walk.tree


def _brought_up_to_date(source: Source, before: Tree, pause: Callable[[], None] | None) -> Tree | None:
    """Return the tree of a whole scan in which only folders that may have changed are listed; `before` if none has.

    None if that might not be all that a scan finds: rules of ignore files and targets of links are elsewhere, a bound
    leaves out other folders than before, and of an index, parts may be missing.
    """
    if source.gitignore or source.follow_symlinks or before.bounded:
        return None
    devices = noting_devices()
    root, changed, seen, waiting = str(source.root), list[str](), 0, [""]
    while waiting:
        folder = waiting.pop()
        if pause is not None:
            pause()
        if (branch := before.branches.get(folder)) is not None:
            seen += len(branch)
            changed += [join(folder, each) for each in branch.outdated(f"{root}/{folder}", devices)]
            continue
        listing = before.get(folder)
        if listing is None:
            return None
        seen += 1
        if not listing.is_current(f"{root}/{folder}", devices):
            changed.append(folder)
        waiting += [join(folder, name) for name in listing.folders]
    if seen != len(before):
        return None
    if not changed:
        return before
    with Reader() as reader:
        walk = Walk(source, reader, before, Tree(before), pause=pause)
        walk.tree.entries = before.entries
        return walk.tree if walk.relist(changed) and not walk.tree.bounded else None


def rescan(
    source: Source, tree: Tree, changed: Iterable[str], pause: Callable[[], None] | None = None
) -> tuple[Tree, frozenset[str]]:
    """Scan `changed` paths again (relative, files or folders, existing or deleted).

    A changed folder is scanned as a whole, because the replacement of a folder reports no changes inside. Returns the
    new tree and the folders that were listed again or vanished. `pause` is as for `scan`.
    """
    paths = sorted(set(changed))
    # After a scan that reached a bound, other folders may be beyond it now.
    if not tree.bounded and "" not in paths and "" in tree:
        with Reader() as reader:
            walk = Walk(source, reader, tree, Tree(tree), pause=pause)
            walk.tree.entries = tree.entries
            # If a bound is reached, a full scan finds out whether it really is, and leaves out the deepest folders.
            if walk.rescan(paths) and not walk.tree.bounded:
                return walk.tree, frozenset(walk.touched)
    fresh = scan(source, tree, pause=pause)
    return fresh, frozenset(tree) | frozenset(fresh)


@dataclass(slots=True)
class Walk:
    """One pass over a source: `before` is the last tree, `touched` are folders that were listed or vanished.

    The source must not be barred. The other arguments are as for `scan`.
    """

    source: Source
    reader: Reader
    before: Tree = field(default_factory=Tree)
    tree: Tree = field(default_factory=Tree)
    touched: set[str] = field(default_factory=set)
    fingerprints: bool = True
    pause: Callable[[], None] | None = None
    gitignore: GitIgnore | None = None
    is_full: bool = False
    began: int = field(init=False)

    def __post_init__(self) -> None:
        self.began = time.time_ns()
        if self.source.gitignore:
            self.gitignore = GitIgnore(self.source.root, self.reader, self._locate)

    def _locate(self, folder: str) -> Location:
        source = self.source
        return locate(source, self.tree, folder) if source.follow_symlinks else Location(source.root, folder)

    def rescan(self, paths: Iterable[str]) -> bool:
        """Scan paths again; return False if a folder above one is gone, so that the tree may be wrong."""
        for path in paths:
            known = self._nearest_known(path)
            if known not in self.touched and not self._relist(known):
                return False
            if path in self.before and path in self.tree and path not in self.touched:
                self._forget(path)
                self.descend(path)
        if not self.source.follow_symlinks:
            return True
        # The target of a link may have changed.
        linking = sorted(self.tree.linking)
        return all(self._relist(folder) for folder in linking if folder in self.tree and folder not in self.touched)

    def descend(self, start: str) -> None:
        """Scan `start` and the folders below, depth first."""
        for _ in self.finished(start):
            pass

    def finished(self, start: str = "") -> Iterator[str]:
        """Scan `start` and the folders below, and yield each folder when it and all below it are listed.

        Depth first, the folder above is still open when one is opened, which saves most of the system calls. But only
        breadth first, a bound for the number of folders or entries leaves out the deepest ones: so at such a bound this
        ends, with `is_full`, and the tree is of no use.
        """
        waiting, path, beyond = [start], list[str](), list[str]()
        while waiting or path:
            if path and not (waiting and parent(waiting[-1]) == path[-1]):
                # Folders that are too deep are all in the one that was listed last.
                self._record_beyond_bounds(beyond)
                beyond.clear()
                yield path.pop()
                continue
            folder = waiting.pop()
            if self._is_too_deep(folder):
                beyond.append(folder)
                continue
            try:
                listing = self._enter(folder)
            except _BoundReachedError:
                self.is_full = self.tree.bounded = True
                return
            if listing is not None:
                path.append(folder)
                waiting.extend([join(folder, name) for name in reversed(listing.folders)])
        self._record_beyond_bounds(beyond)

    def divide(self, enough: int, most: int) -> list[str]:
        """List folders breadth first until there are `enough` to scan one by one; return these, sorted.

        None of them is in a skill or in another one; the tree has the listings of those above. There may be fewer: at
        most `most` folders are listed, and none after a skill, as beside skills are mostly others: so a small library,
        which clients wait for, has two folders listed in vain.
        """
        waiting = deque([""])
        while waiting and most and len(waiting) < enough:
            folder, most = waiting.popleft(), most - 1
            try:
                listing = None if self._is_too_deep(folder) else self._enter(folder)
            except _BoundReachedError:
                return []
            if listing is not None and find_main(listing) is not None:
                return []
            waiting.extend([join(folder, name) for name in listing.folders] if listing is not None else ())
        return sorted(waiting)

    def scan_breadth_first(self) -> None:
        """Scan the whole source; at a bound, the deepest folders are left out."""
        waiting = deque([""])
        beyond: list[str] = []
        while waiting:
            folder = waiting.popleft()
            try:
                listing = None if (is_deep := self._is_too_deep(folder)) else self._enter(folder)
            except _BoundReachedError:
                listing, is_deep = None, True
            if is_deep:
                beyond.append(folder)
            elif listing is not None:
                waiting.extend([join(folder, name) for name in listing.folders])
        self._record_beyond_bounds(beyond)

    def _is_too_deep(self, folder: str) -> bool:
        return folder.count("/") + bool(folder) > self.source.bounds.depth

    def _enter(self, folder: str) -> Listing | None:
        """List a folder, and enter it in the tree; None if it cannot be listed, which is recorded.

        Raises:
            _BoundReachedError: the source has more folders or entries than its bounds allow.
        """
        if self.pause is not None:
            self.pause()
        if len(self.tree) >= self.source.bounds.folders:
            raise _BoundReachedError
        try:
            listing = self._list(folder)
        except OSError as error:
            self._record_unlisted(folder, error)
            return None
        self.tree.enter(folder, listing)
        self.touched.add(folder)
        return listing

    def _nearest_known(self, path: str) -> str:
        """Return the nearest folder above `path` that is in the tree."""
        folder = parent(path)
        while folder and folder not in self.tree:
            folder = parent(folder)
        return folder

    def relist(self, folders: Iterable[str]) -> bool:
        """List folders of the tree again; return False if one is gone that the folder above has."""
        return all(each in self.touched or each not in self.tree or self._relist(each) for each in folders)

    def _relist(self, folder: str) -> bool:
        """List one folder again, scan its new subfolders, and remove deleted ones.

        Returns False if the folder itself is gone, or a bound is reached.
        """
        if self.pause is not None:
            self.pause()
        self.touched.add(folder)
        before = self.tree[folder]
        try:
            after = self._list(folder)
        except (OSError, _BoundReachedError):
            return False
        self.tree.enter(folder, after)
        led, leads = dict(before.links), dict(after.links)
        # A folder that is listed is in the tree.
        kept = frozenset(before.folders).intersection(after.folders)
        kept = kept.difference(name for name in {**led, **leads} if led.get(name) != leads.get(name))
        for name in before.folders:
            if name not in kept:
                self._forget(join(folder, name))
        for name in after.folders:
            if name not in kept and (path := join(folder, name)) not in self.tree:
                self.descend(path)
        return True

    def _forget(self, folder: str) -> None:
        waiting = [folder]
        while waiting:
            current = waiting.pop()
            self.touched.add(current)
            listing = self.tree.drop(current)
            if listing is not None:
                waiting += [join(current, name) for name in listing.folders]

    def _record_beyond_bounds(self, folders: Iterable[str]) -> None:
        """Record folders beyond a bound as refused in the folders above them."""
        beyond: dict[str, list[str]] = {}
        for folder in folders:
            above, _, name = folder.rpartition("/")
            beyond.setdefault(above, []).append(name)
        for above, names in beyond.items():
            self.tree.bounded = True
            self._drop(above, names, Reason.SCAN_LIMIT)

    def _record_unlisted(self, folder: str, error: OSError) -> None:
        """Record a folder that cannot be listed as refused in the folder above; leave out a deleted one."""
        if folder:
            above, _, name = folder.rpartition("/")
            if not is_absence(error):
                self._drop(above, [name], reason_for(error), unread=True)
            else:
                # With another error than ENOENT, something else took its place.
                self._drop(above, [name], None if error.errno == errno.ENOENT else Reason.UNREADABLE)

    def _drop(self, above: str, names: Iterable[str], reason: Reason | None, *, unread: bool = False) -> None:
        """Remove folders from the listing of the one above; with a reason, list them there as refused.

        The next scan lists folders that are `unread` again.
        """
        listing, dropped = self.tree.get(above, Listing()), frozenset(names)
        refused = (*listing.refused, *((name, reason) for name in names)) if reason else listing.refused
        kept = tuple(name for name in listing.folders if name not in dropped)
        again = tuple(sorted({*listing.unread, *dropped})) if unread else listing.unread
        self.tree.enter(above, replace(listing, folders=kept, refused=refused, unread=again))

    def _counted(self, entries: Iterable[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
        """Count and return entries.

        Raises:
            _BoundReachedError: the bound is reached.
        """
        left = max(0, self.source.bounds.entries - self.tree.entries)
        found = list(islice(entries, left + 1))
        if len(found) > left:
            self.tree.entries += left
            raise _BoundReachedError
        self.tree.entries += len(found)
        return found

    def _list(self, folder: str) -> Listing:
        """List one folder; if the system cannot, return its last listing.

        Without a last listing, the root counts as empty. Any other folder raises: later scans would take an empty
        listing for its real content.

        Raises:
            OSError: the folder is gone, is something else now, or was never listed and cannot be.
            _BoundReachedError: there are more entries than the bounds of the source allow.
        """
        known, location = self.before.get(folder), self._locate(folder)
        try:
            own = self._settled(location) if self.fingerprints else UNKNOWN_FINGERPRINT
            with self.reader.entries(location) as entries:
                counted = self._counted(entries)
                listing = list_folder(counted, fingerprints=self.fingerprints, known=known, own=own)
            if listing is known and self.gitignore is None:
                return listing
            if folder and listing.has_file(NOT_A_SOURCE) and find_main(listing) is None:
                return Listing()
            if self.gitignore is not None:
                # Inside the try block: if the rules cannot be read, the folder counts as unreadable.
                listing = self.gitignore.without_ignored(folder, listing)
        except OSError as error:
            if is_absence(error) or (folder and known is None):
                raise
            return unreadable_listing(known, error)
        level = folder.count("/") + 1 if folder else 0
        if level < len(self.source.below):
            wanted = self.source.below[level]
            return Listing(
                folders=tuple(name for name in listing.folders if wanted in {"*", name}),
                unread=tuple(name for name in listing.unread if wanted in {"*", name}),
            )
        if self.source.follow_symlinks and listing.refused:
            listing = self._with_links(folder, listing)
        if SCHEDULES not in listing.folders or not is_above_schedules(join(self.source.root.as_posix(), folder)):
            return listing
        return replace(listing, folders=tuple(name for name in listing.folders if name != SCHEDULES))

    def _settled(self, location: Location) -> Fingerprint:
        """Return the fingerprint of a folder; an unknown one if its entries might change without another one."""
        found = Fingerprint.of(self.reader.folder_status(location))
        return found if found.is_settled(self.began) else UNKNOWN_FINGERPRINT

    def _with_links(self, folder: str, listing: Listing) -> Listing:
        """Return the listing with the allowed links followed."""
        steps = [folder[: match.start()] for match in re.finditer("/", folder)] + [folder] if folder else []
        followed = sum(step.rpartition("/")[2] in dict(self.tree[parent(step)].links) for step in steps)
        may_leave = not followed and not any(map(find_main, (*(self.tree[parent(step)] for step in steps), listing)))
        above = tuple(_trail(self.source, self.tree, folder))
        plain = [each for each in listing.refused if each[1] is not Reason.SYMLINK]
        found = ListingBuilder(
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
                location, fingerprint = target
                found.links.append((name, location))
                if fingerprint is None:
                    found.folders.append(name)
                else:
                    found.files.append((name, fingerprint))
        return found.listing()


def _trail(source: Source, tree: Tree, path: str) -> Iterator[Location]:
    """Yield the locations of the root and of each component of `path`."""
    location, folder = Location(source.root, ""), ""
    yield location
    for name in path.split("/") if path else ():
        links = dict(tree[folder].links) if folder in tree else {}
        location = links.get(name) or Location(location.root, join(location.relative, name))
        folder = join(folder, name)
        yield location
