"""One folder: what lies in it, and what of that is refused, without reading any file."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.disk.files import Fingerprint
from skills_core.disk.names import MAIN_FILE, OTHER_SPELLING, is_ignored

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from skills_core.disk.files import Location

__all__ = ["Listing", "find_main", "list_folder"]


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


def list_folder(entries: Iterable[os.DirEntry[str]], *, fingerprints: bool) -> Listing:
    """Sort out the entries of a folder; see `Listing` for `fingerprints`.

    Raises:
        OSError: the folder cannot be read to its end.
    """
    files: list[tuple[str, Fingerprint | None]] = []
    folders: list[str] = []
    refused: list[tuple[str, Reason]] = []
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
    files.sort(key=itemgetter(0))
    return Listing(tuple(files), tuple(sorted(folders)), tuple(sorted(refused)))


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
