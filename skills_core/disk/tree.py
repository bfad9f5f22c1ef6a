"""The listings of a source's folders by path: those of each skill packed, as a library has hundreds of thousands.

A path is relative to the root and has `/` as separator; `""` is the root itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from functools import lru_cache
from typing import Any, Final, TypeVar, overload

from skills_core.diagnostics import Reason
from skills_core.disk.files import FINGERPRINT_SIZE, packed_fingerprint
from skills_core.disk.folders import MAIN_FILES, Listing, find_main
from skills_core.layered import Layered
from skills_core.sharing import shared
from skills_core.values import value_type

_NUL: Final = "\0"
# No path has it.

_Default = TypeVar("_Default")


def parent(folder: str) -> str:
    """Return the folder above a relative path; for a name without `/`, the root."""
    return folder.rpartition("/")[0]


def join(folder: str, name: str) -> str:
    """Return the path of `name` in a folder; for `""` that of the folder."""
    return f"{folder}/{name}" if folder and name else folder or name


@value_type(frozen=True, slots=True)
class Branch:
    """The listings of a folder and of all folders in it; all that they have are files and folders.

    `paths` are those of the files, relative to the folder, with a NUL before and behind each. The main file comes
    first, then all others of a folder before those of the folders in it. `fingerprints` are theirs, one after the
    other. These two are as `SkillFiles` has them: usually they are the same objects. `folders` are the paths of the
    folders in it, each with a NUL behind it, and `own` the fingerprints of the folder itself and of these.
    """

    paths: str
    fingerprints: bytes
    folders: str
    own: bytes

    def __post_init__(self) -> None:
        files = max(0, self.paths.count(_NUL) - 1)
        if len(self.fingerprints) != FINGERPRINT_SIZE * files or len(self.own) != FINGERPRINT_SIZE * len(self):
            raise ValueError("there is not one fingerprint for each folder and each file")
        # Most skills have folders of a few names.
        object.__setattr__(self, "folders", shared(self.folders))

    @classmethod
    def of(cls, listings: dict[str, Listing], paths: str, fingerprints: bytes) -> Branch:
        """Return listings as one object: of a folder, `""`, then of each in it, before all that are in that one.

        If `paths` and `fingerprints` are those of the files, it has these objects.
        """
        files = [
            (join(folder, name), listing.fingerprints[start : start + FINGERPRINT_SIZE])
            for folder, listing in listings.items()
            for start, name in zip(_starts(listing.fingerprints)[1:], listing.file_names, strict=True)
        ]
        if (main := find_main(listings[""])) is not None:
            files.sort(key=lambda file: file[0] != main)
        found = _NUL.join(("", *(path for path, _ in files), "")) if files else ""
        theirs = b"".join([fingerprint for _, fingerprint in files])
        return cls(
            paths if paths == found else found,
            fingerprints if fingerprints == theirs else theirs,
            "".join([f"{folder}{_NUL}" for folder in listings if folder]),
            b"".join([listing.fingerprints[:FINGERPRINT_SIZE] for listing in listings.values()]),
        )

    def __len__(self) -> int:
        """Return the number of listings."""
        return 1 + self.folders.count(_NUL)

    @property
    def entries(self) -> int:
        """How many files and folders are in it."""
        return (len(self.fingerprints) + len(self.own)) // FINGERPRINT_SIZE - 1

    @property
    def folder_names(self) -> list[str]:
        """The paths of the folders in it."""
        return self.folders.split(_NUL)[:-1]

    @property
    def file_names(self) -> list[str]:
        """The paths of the files."""
        return self.paths.split(_NUL)[1:-1]

    def has_folder(self, path: str) -> bool:
        """Tell whether the path is that of the folder, `""`, or of one in it."""
        return not path or f"{_NUL}{path}{_NUL}" in f"{_NUL}{self.folders}"

    def has_file(self, path: str) -> bool:
        """Tell whether the path is that of a file."""
        return f"{_NUL}{path}{_NUL}" in self.paths

    def outdated(self, path: str, devices: Container[int]) -> list[str]:
        """Return the folders of which `Listing.is_current` is false; `path` is that of the folder itself."""
        try:
            folders = [os.lstat(path), *[os.lstat(f"{path}/{each}") for each in self.folder_names]]
            # Of all at once, which is what a start finds of most skills.
            if all(each.st_dev in devices for each in folders):
                files = b"".join([packed_fingerprint(os.lstat(f"{path}/{each}")) for each in self.file_names])
                if files == self.fingerprints and b"".join(map(packed_fingerprint, folders)) == self.own:
                    return []
        except OSError:
            pass
        listings = self.listings()
        return [each for each in listings if not listings[each].is_current(f"{path}/{each}", devices)]

    def listings(self) -> dict[str, Listing]:
        """Return the listings by path, that of the folder itself first."""
        folders = self.folder_names
        files: dict[str, list[tuple[str, bytes]]] = {each: [] for each in ("", *folders)}
        names: dict[str, list[str]] = {each: [] for each in files}
        for each in folders:
            above, _, name = each.rpartition("/")
            names[above].append(name)
        for path, start in zip(self.file_names, _starts(self.fingerprints), strict=True):
            folder, _, name = path.rpartition("/")
            files[folder].append((name, self.fingerprints[start : start + FINGERPRINT_SIZE]))
        # The main file is not where its name puts it.
        files[""].sort()
        return {
            folder: Listing(
                "".join([f"{name}/" for name, _ in inside]),
                b"".join([self.own[start : start + FINGERPRINT_SIZE], *[found for _, found in inside]]),
                tuple(names[folder]),
            )
            for (folder, inside), start in zip(files.items(), _starts(self.own), strict=True)
        }


def _starts(fingerprints: bytes) -> range:
    return range(0, len(fingerprints), FINGERPRINT_SIZE)


@lru_cache(maxsize=2)
def _unpacked(branch: Branch) -> Mapping[str, Listing]:
    """Return the listings of a branch; those who walk ask for one folder after the other, often of two trees."""
    return branch.listings()


class Tree(MutableMapping[str, Listing]):
    """The listings of a source's folders, by path.

    `bounded` tells that the scan reached a bound. `entries` counts the entries that were read; those of a folder that
    was listed twice count twice. `faulty` are the folders with unread entries, `refusing` those with refused ones, and
    `linking` those with links that are followed or lead out of the source.

    The listings of a skill are packed once it is loaded: `branches` are these by folder, `packed` is the number of
    folders that they have, and `plain` are the listings of all others. A listing that is asked for is made of its
    branch, so equal ones may be different objects. A change in a branch unpacks it. Other threads may read a tree while
    it is copied.
    """

    bounded = False
    entries = 0

    def __init__(self, known: Tree | None = None) -> None:
        """Start with the listings of `known`, or empty."""
        self.plain: Layered[str, Listing] = Layered(None if known is None else known.plain)
        self.branches: Layered[str, Branch] = Layered(None if known is None else known.branches)
        self.packed: int = 0 if known is None else known.packed
        self.faulty: set[str] = set(known.faulty) if known is not None else set()
        self.refusing: set[str] = set(known.refusing) if known is not None else set()
        self.linking: set[str] = set(known.linking) if known is not None else set()

    @property
    def unread(self) -> frozenset[str]:
        """The paths of the files and folders that the system could not read."""
        return frozenset(join(folder, name) for folder in self.faulty for name in self[folder].unread)

    def enter(self, folder: str, listing: Listing) -> None:
        """Set the listing of a folder."""
        self._unpack_around(folder)
        known = self.plain.get(folder)
        if known is not None:
            self._note(known, folder, set.discard)
        self.plain[folder] = listing
        self._note(listing, folder, set.add)

    def drop(self, folder: str) -> Listing | None:
        """Remove a folder; return its listing."""
        listing = self.pop(folder, None)
        if listing is not None:
            self._note(listing, folder, set.discard)
        return listing

    def pack(self, folder: str, paths: str, fingerprints: bytes) -> None:
        """Pack the listings of a folder and of all in it, unless one has more than files and folders.

        `paths` and `fingerprints` are as of `Branch.of`.
        """
        if folder not in self.plain:
            return
        listings = self._listings_below(folder)
        if listings is not None:
            branch = Branch.of(listings, paths, fingerprints)
            places = [join(folder, each) for each in listings]
            for place in places:
                # A branch in this one would be found before it.
                self._unpack(place)
            self.add_branch(folder, branch)
            for place in places:
                del self.plain[place]

    def add_branch(self, folder: str, branch: Branch) -> None:
        """Enter a folder, and all folders in it, of which the tree has none."""
        self.branches[folder] = branch
        self.packed += len(branch)

    def merge(self) -> None:
        """Call this after many changes that no copy follows soon; see `Layered.merge`."""
        self.plain.merge()
        self.branches.merge()

    def differing(self, before: Tree) -> set[str]:
        """Return the folders whose listings differ from those of another tree, or that only one of them has."""
        found = {*_not_shared(self, before), *_not_shared(before, self)}
        return {folder for folder in found if self.get(folder) != before.get(folder)}

    def __getitem__(self, folder: str) -> Listing:
        found = self.get(folder)
        if found is None:
            raise KeyError(folder)
        return found

    @overload
    def get(self, key: str, /) -> Listing | None: ...
    @overload
    def get(self, key: str, /, default: Listing | _Default) -> Listing | _Default: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        """Return the listing of a folder, or `default`."""
        found = self.plain.get(key)
        if found is None:
            branch, below = self._branch_with(key)
            if branch is None:
                return default
            return _unpacked(branch)[below]
        return found

    def main_of(self, folder: str) -> str | None:
        """Return the name of a folder's main file, as `find_main` does; None if the tree does not have the folder."""
        listing = self.plain.get(folder)
        if listing is not None:
            return find_main(listing)
        branch, below = self._branch_with(folder)
        if branch is None:
            return None
        return next((name for name in MAIN_FILES if branch.has_file(join(below, name))), None)

    def __contains__(self, folder: object) -> bool:
        return isinstance(folder, str) and (folder in self.plain or self._branch_with(folder)[0] is not None)

    def __setitem__(self, folder: str, listing: Listing) -> None:
        self._unpack_around(folder)
        self.plain[folder] = listing

    def __delitem__(self, folder: str) -> None:
        self._unpack_around(folder)
        del self.plain[folder]

    def __len__(self) -> int:
        return len(self.plain) + self.packed

    def __iter__(self) -> Iterator[str]:
        yield from self.plain
        for folder, branch in self.branches.items():
            yield folder
            for below in branch.folder_names:
                yield join(folder, below)

    def _top(self, folder: str) -> str | None:
        """Return the folder of the branch around a path, whether the branch has this path or not."""
        branches = self.branches
        if not branches:
            return None
        while folder not in branches:
            if not folder:
                return None
            folder = folder.rpartition("/")[0]
        return folder

    def _branch_with(self, folder: str) -> tuple[Branch | None, str]:
        """Return the branch that has a folder, and the path of the folder in it."""
        top = self._top(folder)
        if top is None:
            return None, ""
        branch, below = self.branches[top], folder[len(top) :].removeprefix("/")
        return (branch if branch.has_folder(below) else None), below

    def _unpack_around(self, path: str) -> None:
        top = self._top(path)
        if top is not None:
            self._unpack(top)

    def _unpack(self, folder: str) -> None:
        branch = self.branches.get(folder)
        if branch is not None:
            # First the listings: at each moment a reader finds all.
            for below, listing in _unpacked(branch).items():
                self.plain[join(folder, below)] = listing
            del self.branches[folder]
            self.packed -= len(branch)

    def _listings_below(self, folder: str) -> dict[str, Listing] | None:
        """Return the listings of a folder and of all in it, in the order of a branch; None if it cannot have them."""
        found: dict[str, Listing] = {}
        waiting = [""]
        while waiting:
            below = waiting.pop()
            listing = self.get(join(folder, below))
            if listing is None or listing.refused or listing.links or listing.unread:
                return None
            found[below] = listing
            waiting += [join(below, name) for name in reversed(listing.folders)]
        return found

    def _note(self, listing: Listing, folder: str, change: Callable[[set[str], str], None]) -> None:
        """Add a folder to the sets that a listing belongs to, or remove it."""
        if listing.unread:
            change(self.faulty, folder)
        leads_out = False
        if listing.refused:
            change(self.refusing, folder)
            leads_out = any(reason is Reason.SYMLINK_OUTSIDE for _, reason in listing.refused)
        if listing.links or leads_out:
            change(self.linking, folder)


def _not_shared(tree: Tree, other: Tree) -> Iterator[str]:
    """Yield the folders of which the other tree does not have the same object."""
    for folder, listing in tree.plain.items():
        if other.plain.get(folder) is not listing:
            yield folder
    for folder, branch in tree.branches.items():
        if other.branches.get(folder) is not branch:
            yield folder
            yield from (join(folder, below) for below in branch.folder_names)
