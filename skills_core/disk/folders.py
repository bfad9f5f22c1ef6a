"""List one folder: its files and subfolders, and the refused entries, without reading any file.

Some names have a meaning below a source: those of main files and document folders, and ignored names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from skills_core.diagnostics import Reason
from skills_core.disk.files import FINGERPRINT_SIZE, UNKNOWN_FINGERPRINT, Fingerprint, Location, packed_fingerprint
from skills_core.errors import Fault, fault_of
from skills_core.sharing import shared
from skills_core.values import value_type

MAIN_FILE = "SKILL.md"
"""The file that makes its folder a skill."""

CLAUDE_SKILLS = ".claude/skills"
"""Claude Code's folder of skills, in a home directory or project; adk-skill reads single files in it too."""

MAIN_FILE_LOWERCASE = "skill.md"
"""The main file of a folder that has no `SKILL.md`."""

MAIN_FILES = (MAIN_FILE, MAIN_FILE_LOWERCASE)
"""The names of main files, the one that wins first."""

DOCUMENTS_FOLDER = ".skills"
"""A hidden folder that is scanned: each Markdown file in it may be a skill."""

NOT_A_SOURCE = "skillserve-workspace.json"
"""The file that keeps its folder out of every search for skills: a workspace of test results, or scheduler skills."""

SCHEDULES = "scheduler"
"""The tree of scheduler skills among Agenvoy's skills. A schedule or its user starts them; no model may find them."""

EVALS = "evals"
"""The folder, in any case, in the folder of a skill, that has the files of its tests."""

# The other hidden names that are scanned are folders of OpenAI's public collection of skills.
_IGNORED = re.compile(
    r"""\.(?!(?:skills|curated|experimental|system)\Z).*  # hidden: .git, .DS_Store, .venv, swap files of vim and emacs
      | __pycache__ | node_modules                  # build output and dependencies
      | .*~ | \#.*\# | .*\.sw[op] | .*\.(?:bak|orig|rej)  # backups of editors and patch
      | 4913 | ___jb_(?:tmp|old)___                 # temporary files of vim and JetBrains
      | Thumbs\.db | desktop\.ini""",
    re.VERBOSE | re.DOTALL,
)


def is_above_schedules(folder: str) -> bool:
    """Tell whether a folder, an absolute path with `/`, is Agenvoy's folder of skills, the one above `SCHEDULES`."""
    return folder.endswith("/agenvoy/skills")


def is_ignored(name: str) -> bool:
    """Tell whether a file or folder of this name is left out of all skills."""
    return _kept_name(name) is None


@lru_cache(maxsize=1024)
def _kept_name(name: str) -> str | None:
    """Return a name, the same object for frequent ones such as `references`; None if it is ignored."""
    return None if _IGNORED.fullmatch(name) else name


@value_type(frozen=True, slots=True)
class Listing:
    """The contents of a folder, sorted by name: files, subfolders, and refused entries with the reason.

    `names` are those of the files, each followed by `/`. `fingerprints` are one after the other, that of the folder and
    then theirs: a library has hundreds of thousands of files. That of the folder, `own`, is known only where it tells
    whether entries came or went since. `links` are the targets of the files and folders that are links.
    `unread` are the names that the system could not read, `""` for the folder itself; their last known entries stay in
    the listing.
    """

    names: str = ""
    fingerprints: bytes = UNKNOWN_FINGERPRINT
    folders: tuple[str, ...] = ()
    refused: tuple[tuple[str, Reason], ...] = ()
    links: tuple[tuple[str, Location], ...] = ()
    unread: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.fingerprints) != FINGERPRINT_SIZE * (1 + self.names.count("/")):
            raise ValueError("there is not one fingerprint for the folder and each file")
        object.__setattr__(self, "names", shared(self.names))
        if self.folders:
            # Each one also: the skill in a folder has its name.
            object.__setattr__(self, "folders", shared(tuple(map(shared, self.folders))))

    @classmethod
    def of(
        cls,
        files: Iterable[tuple[str, Fingerprint | None]],
        folders: Iterable[str] = (),
        refused: Iterable[tuple[str, Reason]] = (),
        links: Iterable[tuple[str, Location]] = (),
        unread: Iterable[str] = (),
    ) -> Listing:
        """Return a listing with these entries, which are sorted."""
        return cls(*_packed(files), tuple(folders), tuple(refused), tuple(links), tuple(unread))

    def with_files(self, files: Iterable[tuple[str, Fingerprint | None]]) -> Listing:
        """Return the listing with other files, which are sorted."""
        names, fingerprints = _packed(files)
        return replace(self, names=names, fingerprints=fingerprints)

    def is_current(self, path: str, devices: Container[int]) -> bool:
        """Tell whether the folder at `path` still has these entries, and each file its fingerprint; False if in doubt.

        If the folder itself is as it was, on one of the `devices`, no entry came or went: only the files are looked at.
        """
        if self.refused or self.links or self.unread or self.fingerprints.startswith(UNKNOWN_FINGERPRINT):
            return False
        try:
            folder = os.lstat(path)
            files = [packed_fingerprint(os.lstat(f"{path}/{name}")) for name in self.file_names]
        except OSError:
            return False
        return folder.st_dev in devices and b"".join((packed_fingerprint(folder), *files)) == self.fingerprints

    def has_only(self, names: str, fingerprints: bytes, folders: Sequence[str]) -> bool:
        """Tell whether these are the entries, and all of them."""
        others = self.refused or self.links or self.unread
        same = self.fingerprints == fingerprints and self.names == names and self.folders == tuple(folders)
        return same and not others

    @property
    def file_names(self) -> list[str]:
        """The names of the files."""
        return self.names.split("/")[:-1]

    @property
    def files(self) -> list[tuple[str, Fingerprint | None]]:
        """The names of the files with their fingerprints; None where the scan did not ask for fingerprints."""
        return [(name, self._fingerprint(number)) for number, name in enumerate(self.file_names)]

    def has_file(self, name: str) -> bool:
        """Tell whether there is a file with this name."""
        return f"/{name}/" in f"/{self.names}"

    def file(self, name: str) -> tuple[str, Fingerprint | None] | None:
        """Return the entry of a file, None if there is none."""
        number = _numbers(self.names).get(name)
        return None if number is None else (name, self._fingerprint(number))

    def _fingerprint(self, number: int) -> Fingerprint | None:
        start = FINGERPRINT_SIZE * (number + 1)
        found = self.fingerprints[start : start + FINGERPRINT_SIZE]
        return None if found == _NOT_ASKED else Fingerprint(found)


_MOUNTS: Final = Path("/proc/self/mountinfo")
_NOTING: Final = frozenset({"ext3", "ext4", "tmpfs", "xfs"})
# A network or FUSE file system may give a folder any time. Devices of btrfs are not those in the list of mounts, and
# layers below an overlay may be replaced.


def noting_devices(mounts: Path = _MOUNTS) -> frozenset[int]:
    """Return the devices on which a folder has a new time of change whenever an entry was added, removed or renamed.

    There, a folder with the same inode and times has the same entries, and one with two links has no folders in it.
    Those not known to be like this are left out; so are all on systems other than Linux.
    """
    if not sys.platform.startswith("linux"):
        return frozenset()
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return frozenset()
    found: set[int] = set()
    for line in lines:
        mount, _, system = line.partition(" - ")
        if system.partition(" ")[0] in _NOTING:
            major, _, minor = mount.split(" ")[2].partition(":")
            found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)


_NOT_ASKED = b"\xff" * FINGERPRINT_SIZE
# No file has this size, and it is not `UNKNOWN_FINGERPRINT`.


def _packed(
    files: Iterable[tuple[str, Fingerprint | None]], own: Fingerprint = UNKNOWN_FINGERPRINT
) -> tuple[str, bytes]:
    """Return names and fingerprints as a listing has them."""
    given = list(files)
    return "".join([f"{name}/" for name, _ in given]), b"".join([own, *[found or _NOT_ASKED for _, found in given]])


@lru_cache(maxsize=1)
def _numbers(names: str) -> dict[str, int]:
    """Return the place of each name; a folder may hold 200,000 documents, which are looked up one after the other."""
    return {name: number for number, name in enumerate(names.split("/")[:-1])}


_NOTHING_KNOWN = Listing()


@dataclass(slots=True)
class ListingBuilder:
    """Collects the entries of one folder; `known` is the last listing, for entries that cannot be read now.

    `own` is the fingerprint of the folder, if it is settled.
    """

    known: Listing = _NOTHING_KNOWN
    files: list[tuple[str, Fingerprint | None]] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    refused: list[tuple[str, Reason]] = field(default_factory=list)
    links: list[tuple[str, Location]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    own: Fingerprint = UNKNOWN_FINGERPRINT

    def keep(self, name: str, error: OSError) -> None:
        """Enter an unreadable entry as it is in the last listing; refuse it if it is new."""
        self.unread.append(name)
        if name in self.known.folders:
            self.folders.append(name)
        elif self.known.file(name) is not None:
            self.files.append((name, UNKNOWN_FINGERPRINT))
        else:
            self.refused.append((name, dict(self.known.refused).get(name, reason_for(error))))
            return
        self.links += [(link, target) for link, target in self.known.links if link == name]

    def listing(self) -> Listing:
        """Return the sorted listing; the known one if it is the same."""
        # Names differ, so that nothing else is compared.
        self.files.sort()
        self.folders.sort()
        names, fingerprints = _packed(self.files, self.own)
        others = tuple(sorted(self.refused)), tuple(self.links), tuple(sorted(self.unread))
        if not any(others) and self.known.has_only(names, fingerprints, self.folders):
            # A reload lists every folder, and most are as before.
            return self.known
        return Listing(names, fingerprints, tuple(self.folders), *others)


def find_main(listing: Listing) -> str | None:
    """Return the name of the folder's main file, None if the folder is not a skill.

    A main file that is a link or a special file makes the folder an invalid skill.
    """
    refused = [name for name, _ in listing.refused]
    return next((name for name in MAIN_FILES if listing.has_file(name) or name in refused), None)


def list_folder(
    entries: Iterable[os.DirEntry[str]],
    *,
    fingerprints: bool,
    known: Listing | None = None,
    own: Fingerprint = UNKNOWN_FINGERPRINT,
) -> Listing:
    """Return the listing of a folder; see `Listing` for `fingerprints`, and `ListingBuilder` for `known` and `own`.

    Raises:
        OSError: the folder cannot be read completely.
    """
    found = ListingBuilder(known or _NOTHING_KNOWN, own=own)
    for entry in entries:
        name = _kept_name(entry.name)
        if name is None:
            continue
        try:
            # Most entries are files. A link is not one unless it is followed; a junction leads to a folder.
            if entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False) if fingerprints else None
                found.files.append((name, None if status is None else Fingerprint.of(status)))
            else:
                _enter_other(name, entry, found)
        except OSError as error:
            # An entry deleted since the folder was opened is left out.
            if fault_of(error) is not Fault.ABSENT:
                found.keep(name, error)
    return found.listing()


def unreadable_listing(known: Listing | None, error: OSError) -> Listing:
    """Return the listing of a folder that cannot be listed: its last one, with every file to be read again."""
    known = known or _NOTHING_KNOWN
    return replace(
        known.with_files((name, UNKNOWN_FINGERPRINT) for name in known.file_names),
        refused=(("", reason_for(error)), *((name, reason) for name, reason in known.refused if name)),
        unread=("", *(name for name in known.unread if name)),
    )


def reason_for(error: OSError) -> Reason:
    """Return the reason code for an entry that exists and cannot be read."""
    return Reason.PERMISSION_DENIED if fault_of(error) is Fault.DENIED else Reason.UNREADABLE


def _enter_other(name: str, entry: os.DirEntry[str], found: ListingBuilder) -> None:
    """Add an entry that is not a file."""
    if entry.is_symlink() or _is_junction(entry):
        found.refused.append((name, Reason.SYMLINK))
    elif entry.is_dir(follow_symlinks=False):
        found.folders.append(name)
    else:
        found.refused.append((name, Reason.SPECIAL_FILE))


def _is_junction(entry: os.DirEntry[str]) -> bool:
    """Tell whether the entry is a Windows junction; before Python 3.12 only `files` detects it, and refuses to read."""
    test = getattr(entry, "is_junction", None)
    return test is not None and bool(test())
