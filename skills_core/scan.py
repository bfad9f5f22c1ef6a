"""Walk a source's folders: which files lie where, without reading any of them.

A `Tree` maps each folder, as a `/`-separated path relative to the root (`""` is the root itself), to its
`Listing`. `scan` walks everything; `rescan` looks again only where something changed, so that a change costs
what it touches. Links are followed where the source says so and `links` allows it, and then a path of the tree is
not where the bytes are: `locate` tells. Hidden names and leftovers of editors are never seen.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.files import Fingerprint, Location
from skills_core.links import follow
from skills_core.names import MAIN_FILE, OTHER_SPELLING, is_ignored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from skills_core.sources import Source

__all__ = ["Listing", "Tree", "find_main", "locate", "parent", "rescan", "scan"]

Tree = dict[str, "Listing"]

_MAX_LINKS = 2
# Folders that are links, on one path: folders that link to one another have paths beyond counting.


@dataclass(frozen=True, slots=True)
class Listing:
    """One folder: its files and subfolders in order of their names, and what was refused, with the reason.

    A file has no fingerprint where the scan was told that nobody would compare it. `links` tell where those of
    the files and folders are that were reached by a link.
    """

    files: tuple[tuple[str, Fingerprint | None], ...] = ()
    folders: tuple[str, ...] = ()
    refused: tuple[tuple[str, Reason], ...] = ()
    links: tuple[tuple[str, Location], ...] = ()


def find_main(listing: Listing) -> str | None:
    """Return how the SKILL.md of a folder is spelled, or None where the folder is no skill.

    A SKILL.md that is a link or no regular file still makes the folder a skill: an invalid one.
    """
    names = [name for entries in (listing.files, listing.refused) for name, _ in entries]
    return next((name for name in (MAIN_FILE, OTHER_SPELLING) if name in names), None)


def locate(source: Source, tree: Tree, path: str) -> Location:
    """Return where the bytes of a file or folder of the tree are."""
    if not source.follow_symlinks:
        return Location(source.root, path)
    *_, location = _trail(source, tree, path)
    return location


def _trail(source: Source, tree: Tree, path: str) -> Iterator[Location]:
    """Yield where the root is, and where each step of `path` leads from there."""
    location, folder = Location(source.root, ""), ""
    yield location
    for name in path.split("/") if path else ():
        links = dict(tree[folder].links) if folder in tree else {}
        location = links.get(name) or Location(location.root, _join(location.relative, name))
        folder = _join(folder, name)
        yield location


def parent(folder: str) -> str:
    """Return the folder above a relative path; the root for a name without `/`."""
    return folder.rpartition("/")[0]


def scan(source: Source, *, fingerprints: bool = True) -> Tree:
    """Walk the whole source. A missing root gives an empty tree.

    `fingerprints` cost a call to the system for each file; a first load, which reads all files, has no use for them.
    """
    tree: Tree = {}
    _walk(source, "", tree, fingerprints=fingerprints)
    return tree


def rescan(source: Source, tree: Mapping[str, Listing], changed: Iterable[str]) -> tuple[Tree, frozenset[str]]:
    """Look again at `changed` paths (relative, files or folders, existing or gone).

    A changed folder is walked again as a whole: one that was moved away and replaced reports nothing of what
    is inside. Returns the new tree and the folders that were looked at again, those that vanished included.
    """
    paths = sorted(set(changed))
    # A bound that cut the scan short may cut elsewhere now.
    bounded = any(reason is Reason.SCAN_LIMIT for listing in tree.values() for _, reason in listing.refused)
    if bounded or "" in paths or "" not in tree:
        fresh = scan(source)
        return fresh, frozenset(tree) | frozenset(fresh)
    result = dict(tree)
    touched: set[str] = set()
    for path in paths:
        known = _nearest_known(path, result)
        if known not in touched and not _relist(source, known, result, touched):
            fresh = scan(source)
            return fresh, frozenset(tree) | frozenset(fresh)
        if path in tree and path in result and path not in touched:
            _forget(path, result, touched)
            _walk(source, path, result, touched)
    if source.follow_symlinks:
        # Where links may lead depends on what lies elsewhere.
        for folder in sorted(folder for folder, listing in result.items() if _has_links(listing)):
            if folder in result and folder not in touched and not _relist(source, folder, result, touched):
                fresh = scan(source)
                return fresh, frozenset(tree) | frozenset(fresh)
    return result, frozenset(touched)


def _has_links(listing: Listing) -> bool:
    return bool(listing.links) or any(reason is Reason.SYMLINK_OUTSIDE for _, reason in listing.refused)


def _nearest_known(path: str, tree: Tree) -> str:
    """Return the nearest folder above `path` that the tree has."""
    folder = parent(path)
    while folder and folder not in tree:
        folder = parent(folder)
    return folder


def _relist(source: Source, folder: str, tree: Tree, touched: set[str]) -> bool:
    """List one folder again; walk subfolders that are new, forget those that are gone.

    Returns False where the folder itself is gone and so the tree above it is not to be trusted.
    """
    touched.add(folder)
    before = tree[folder]
    after = _list(source, tree, folder)
    if after is None:
        return False
    tree[folder] = after
    led, leads = dict(before.links), dict(after.links)
    for name in before.folders:
        if name not in after.folders or led.get(name) != leads.get(name):
            _forget(_join(folder, name), tree, touched)
    for name in after.folders:
        if _join(folder, name) not in tree:
            _walk(source, _join(folder, name), tree, touched)
    return True


def _forget(folder: str, tree: Tree, touched: set[str]) -> None:
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        touched.add(current)
        listing = tree.pop(current, None)
        if listing is not None:
            waiting += [_join(current, name) for name in listing.folders]


def _walk(
    source: Source, start: str, tree: Tree, touched: set[str] | None = None, *, fingerprints: bool = True
) -> None:
    """Walk from `start` downwards, within the source's bounds, breadth first so that a bound cuts the deepest."""
    level = [start]
    depth = start.count("/") + 1 if start else 0
    while level:
        below: list[str] = []
        for folder in level:
            if depth > source.bounds.depth or len(tree) >= source.bounds.folders:
                _mark_bound(folder, tree)
                continue
            listing = _list(source, tree, folder, fingerprints=fingerprints)
            if listing is not None:
                tree[folder] = listing
                below += [_join(folder, name) for name in listing.folders]
                if touched is not None:
                    touched.add(folder)
        level = below
        depth += 1


def _mark_bound(folder: str, tree: Tree) -> None:
    """Note in the folder above that this one was not looked into."""
    above, _, name = folder.rpartition("/")
    listing = tree.get(above, Listing())
    refused = (*listing.refused, (name, Reason.SCAN_LIMIT))
    folders = tuple(folder for folder in listing.folders if folder != name)
    tree[above] = Listing(listing.files, folders, refused, listing.links)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _list(source: Source, tree: Tree, folder: str, *, fingerprints: bool = True) -> Listing | None:
    """Take one listing; None where the folder is not there (or no longer a folder)."""
    files: list[tuple[str, Fingerprint | None]] = []
    folders: list[str] = []
    refused: list[tuple[str, Reason]] = []
    root, relative = locate(source, tree, folder)
    try:
        with os.scandir(os.path.join(root, relative) if relative else root) as entries:  # noqa: PTH118 - hot path
            for entry in entries:
                if is_ignored(entry.name):
                    continue
                reason = _refusal(entry)
                if reason is not None:
                    refused.append((entry.name, reason))
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    files.append((entry.name, _fingerprint(entry) if fingerprints else None))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        refused.append(("", Reason.UNREADABLE))
    listing = Listing(tuple(files), tuple(folders), tuple(refused))
    if source.follow_symlinks and refused:
        listing = _with_links(source, tree, folder, listing)
    return _sorted(listing)


def _sorted(listing: Listing) -> Listing:
    files = sorted(listing.files, key=itemgetter(0))
    return Listing(tuple(files), tuple(sorted(listing.folders)), tuple(sorted(listing.refused)), listing.links)


def _with_links(source: Source, tree: Tree, folder: str, listing: Listing) -> Listing:
    """Return the listing with those of its links followed that may be."""
    steps = [folder[: match.start()] for match in re.finditer("/", folder)] + [folder] if folder else []
    followed = sum(step.rpartition("/")[2] in dict(tree[parent(step)].links) for step in steps)
    outer = [tree[parent(step)] for step in steps]
    may_leave = not followed and not any(map(find_main, (*outer, listing)))
    above = tuple(_trail(source, tree, folder))
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
    return Listing(tuple(files), tuple(folders), tuple(refused), tuple(links))


def _refusal(entry: os.DirEntry[str]) -> Reason | None:
    """Say why an entry is no part of a skill; None for a plain file or folder. Asks the system for nothing more."""
    try:
        if entry.is_symlink() or _is_junction(entry):
            return Reason.SYMLINK
        plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    except OSError:
        return Reason.UNREADABLE
    return None if plain else Reason.SPECIAL_FILE


def _fingerprint(entry: os.DirEntry[str]) -> Fingerprint | None:
    try:
        return Fingerprint.of(entry.stat(follow_symlinks=False))
    except OSError:
        return None  # gone since the folder was listed, or not to be looked at: reading it will tell


def _is_junction(entry: os.DirEntry[str]) -> bool:
    """Tell whether the entry is a Windows junction; Python before 3.12 cannot ask, `files` refuses to read it."""
    test = getattr(entry, "is_junction", None)
    return test is not None and bool(test())
