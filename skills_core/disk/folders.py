"""One folder: what lies in it, and what of that is refused, without reading any file."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.disk.files import UNKNOWN_FINGERPRINT, Fingerprint
from skills_core.disk.names import MAIN_FILE, OTHER_SPELLING, is_ignored
from skills_core.system_faults import Fault, fault_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from skills_core.disk.files import Location

__all__ = ["Entries", "Listing", "find_main", "list_folder", "reason_for", "unlisted"]


@dataclass(frozen=True, slots=True)
class Listing:
    """One folder: its files and subfolders in order of their names, and what was refused, with the reason.

    A file has no fingerprint where the scan was told that nobody would compare it. `links` tell where those of
    the files and folders are that were reached by a link. `unread` are the names that the system could not look at,
    `""` for the folder itself; what was known of them before stays in the listing.
    """

    files: tuple[tuple[str, Fingerprint | None], ...] = ()
    folders: tuple[str, ...] = ()
    refused: tuple[tuple[str, Reason], ...] = ()
    links: tuple[tuple[str, Location], ...] = ()
    unread: tuple[str, ...] = ()

    def file(self, name: str) -> tuple[str, Fingerprint | None] | None:
        """Return the entry of a file, None where no file has this name, in few steps: a folder may hold 200,000."""
        place = bisect_left(self.files, name, key=itemgetter(0))
        found = self.files[place] if place < len(self.files) else None
        return found if found is not None and found[0] == name else None


_NOTHING_KNOWN = Listing()


@dataclass(slots=True)
class Entries:
    """Collects the entries of one folder; `known` is its last listing, which stands in for what cannot be read."""

    known: Listing = _NOTHING_KNOWN
    files: list[tuple[str, Fingerprint | None]] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    refused: list[tuple[str, Reason]] = field(default_factory=list)
    links: list[tuple[str, Location]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def keep(self, name: str, error: OSError) -> None:
        """Enter what the system could not look at as it was known before; refuse it where nothing was known."""
        self.unread.append(name)
        if name in self.known.folders:
            self.folders.append(name)
        elif name in dict(self.known.files):
            self.files.append((name, UNKNOWN_FINGERPRINT))
        else:
            self.refused.append((name, dict(self.known.refused).get(name, reason_for(error))))
            return
        self.links += [(link, target) for link, target in self.known.links if link == name]

    def listing(self) -> Listing:
        """Return what was collected, in order."""
        self.files.sort(key=itemgetter(0))
        return Listing(
            tuple(self.files),
            tuple(sorted(self.folders)),
            tuple(sorted(self.refused)),
            tuple(self.links),
            tuple(sorted(self.unread)),
        )


def find_main(listing: Listing) -> str | None:
    """Return how the SKILL.md of a folder is spelled, or None where the folder is no skill.

    A SKILL.md that is a link or no regular file still makes the folder a skill: an invalid one.
    """
    names = [name for entries in (listing.files, listing.refused) for name, _ in entries]
    return next((name for name in (MAIN_FILE, OTHER_SPELLING) if name in names), None)


def list_folder(entries: Iterable[os.DirEntry[str]], *, fingerprints: bool, known: Listing = _NOTHING_KNOWN) -> Listing:
    """Sort out the entries of a folder; see `Listing` for `fingerprints`, and `Entries` for `known`.

    Raises:
        OSError: the folder cannot be read to its end.
    """
    found = Entries(known)
    for entry in entries:
        if is_ignored(entry.name):
            continue
        try:
            _enter(entry, found, fingerprints=fingerprints)
        except OSError as error:
            # One that is gone since the folder was opened is no entry of it.
            if fault_of(error) is not Fault.ABSENT:
                found.keep(entry.name, error)
    return found.listing()


def unlisted(known: Listing | None, error: OSError) -> Listing:
    """Return the listing of a folder that cannot be listed: what was known of it, every file to be read again."""
    known = known or _NOTHING_KNOWN
    return replace(
        known,
        files=tuple((name, UNKNOWN_FINGERPRINT) for name, _ in known.files),
        refused=(("", reason_for(error)), *((name, reason) for name, reason in known.refused if name)),
        unread=("", *(name for name in known.unread if name)),
    )


def reason_for(error: OSError) -> Reason:
    """Return why something that is there is not read."""
    return Reason.PERMISSION_DENIED if fault_of(error) is Fault.DENIED else Reason.UNREADABLE


def _enter(entry: os.DirEntry[str], found: Entries, *, fingerprints: bool) -> None:
    """Enter one entry, asking the system for no more than is needed."""
    if entry.is_symlink() or _is_junction(entry):
        found.refused.append((entry.name, Reason.SYMLINK))
    elif entry.is_dir(follow_symlinks=False):
        found.folders.append(entry.name)
    elif entry.is_file(follow_symlinks=False):
        found.files.append((entry.name, Fingerprint.of(entry.stat(follow_symlinks=False)) if fingerprints else None))
    else:
        found.refused.append((entry.name, Reason.SPECIAL_FILE))


def _is_junction(entry: os.DirEntry[str]) -> bool:
    """Tell whether the entry is a Windows junction; Python before 3.12 cannot ask, `files` refuses to read it."""
    test = getattr(entry, "is_junction", None)
    return test is not None and bool(test())
