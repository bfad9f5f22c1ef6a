"""Installation of a skill of another server: the names of its files on disk, the edits of its user, and the files."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import tempfile
import unicodedata
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from skills_core.diagnostics import Diagnostic, Reason, Severity, one_line, shortened
from skills_core.disk.files import Location, Reader
from skills_core.disk.replacement import remove_tree, replace_folder
from skills_core.errors import FileRefusedError, InstallRefusedError

logger = logging.getLogger(__name__)

ORIGIN_FILE = ".skillserve-origin.json"
"""The file in a fetched folder that records its origin; hidden, so that no server serves it."""

_WINDOWS = os.name == "nt"

_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\x00-\x1f]|[. ]$')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]) *(?:\..*)?", re.DOTALL)

_GIT_NAMES = frozenset({".git", "git~1"})
# The second is the short 8.3 name of the first on Windows.

_MAX_NAME = 255
# Maximum bytes of one name on nearly every file system.


def disk_faults(paths: Iterable[str], *, windows: bool = _WINDOWS) -> tuple[Diagnostic, ...]:
    """Return a fault for each of a skill's relative paths, separated by `/`, that cannot be written.

    Colliding paths are refused on every system, because the fetched skill may be copied to any disk.
    """
    found: list[Diagnostic] = []
    spelled: dict[str, str] = {}
    files: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        faults = {name: fault for name in path.split("/") if (fault := _name_fault(name, windows=windows))}
        found += [_fault(Reason.UNSUPPORTED_NAME, f"the name {fault}", path) for fault in faults.values()]
        files.add(fold_path(path))
        above = [path[:at] for at, char in enumerate(path) if char == "/"]
        folders.update(map(fold_path, above))
        others = {other for each in (*above, path) if (other := spelled.setdefault(fold_path(each), each)) != each}
        found += [_collision(path, other) for other in sorted(others)]
    found += [_collision(path, "a folder of this name") for path in sorted(files & folders)]
    if fold_path(ORIGIN_FILE) in files | folders:
        found.append(_collision(ORIGIN_FILE, "the record of where the skill came from"))
    return tuple(found)


def fold_path(path: str) -> str:
    """Return a path as a disk sees it that ignores case and normalizes Unicode."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _name_fault(name: str, *, windows: bool) -> str | None:
    if name in {"", ".", ".."} or any(char in name for char in "/\\\0"):
        return "leads elsewhere"
    plain = "".join(char for char in fold_path(name) if unicodedata.category(char) != "Cf").rstrip(". ")
    if plain in _GIT_NAMES:
        return "is git's own, and git runs what it finds there"
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME:
        return f"is longer than {_MAX_NAME} bytes"
    if windows and (_NOT_ON_WINDOWS.search(name) or _DEVICE.fullmatch(name.lower()) or _is_unencodable(name)):
        return "cannot be used on Windows"
    return None


def _is_unencodable(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _collision(path: str, other: str) -> Diagnostic:
    return _fault(Reason.NAME_COLLISION, f"on many disks this is the same as {one_line(other)}", path)


def _fault(code: Reason, message: str, path: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, message, one_line(path))


_LEFTOVERS = frozenset({"__pycache__", ".DS_Store", "Thumbs.db", "desktop.ini"})
# Files that systems and interpreters create; they are not edits.

_MAX_SHOWN_FILES = 5
_MAX_SHOWN = 200
# Maximum number of files that an error names, and of characters of each.


def edited_files(folder: Path, files: Mapping[str, str], *, record: str) -> list[str]:
    """Return the files of a folder that differ from `files`, digests by path, including added and removed ones.

    `record` is the path of the file that holds the digests.
    """
    found = {
        path: digest
        for path, digest in digests_below(folder).items()
        if path in files or (path != record and _LEFTOVERS.isdisjoint(path.split("/")))
    }
    return sorted(path for path in found.keys() | files.keys() if found.get(path) != files.get(path))


def digests_below(folder: Path) -> dict[str, str]:
    """Return the digest of each file below a folder by its path; an empty text if it is a link or cannot be read."""
    digests: dict[str, str] = {}
    with Reader() as reader:
        for path in sorted(_files_below(folder)):
            try:
                digests[path] = _digest_of(reader.read(Location(folder, path))[0])
            except FileRefusedError:
                digests[path] = ""
    return digests


def _digest_of(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def _files_below(folder: Path) -> Iterator[str]:
    """Yield the relative path of every file and link below a folder."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(folder / prefix) as entries:
            for entry in entries:
                if kind_of(Path(entry.path)) == stat.S_IFDIR:
                    waiting.append(f"{prefix}{entry.name}/")
                else:
                    yield prefix + entry.name


def kind_of(path: Path) -> int | None:
    """Return the file type at `path`, without following links; None if nothing is there. A junction is a link."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    reparse_point = getattr(status, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    return stat.S_IFLNK if reparse_point else stat.S_IFMT(status.st_mode)


def named_files(paths: Sequence[str]) -> str:
    """Return the first of some paths for a message, and how many more there are."""
    names = ", ".join(shortened(path, _MAX_SHOWN) for path in paths[:_MAX_SHOWN_FILES])
    return f"{names} and {len(paths) - _MAX_SHOWN_FILES} more" if len(paths) > _MAX_SHOWN_FILES else names


_VERSION = 1
_MAX_RECORD = 8 * 1024 * 1024


class Installed(StrEnum):
    """How the installation of a skill ended."""

    WRITTEN = "written"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class FolderOrigin:
    """The origin of a folder's content; `files` maps each path to its digest."""

    server: str
    uri: str
    files: Mapping[str, str]

    def same_skill(self, other: FolderOrigin | None) -> bool:
        """Tell whether both are the same skill of the same server, in any version."""
        return other is not None and (self.server, self.uri) == (other.server, other.uri)


def install(
    root: Path, folder: str, contents: Mapping[str, bytes], *, server: str, uri: str, force: bool = False
) -> Installed:
    """Write `contents`, bytes by relative path, to `folder` (relative, separated by `/`) below `root`.

    `root` is trusted and created if missing. An unedited copy from the same origin is replaced, any other folder only
    with `force`. No file is executable.

    Raises:
        InstallRefusedError: a name cannot be written, or the folder is taken, edited, behind a link, or not writable.
            Existing content is unchanged then.
    """
    for fault in (*disk_faults([folder]), *disk_faults(contents)):
        raise InstallRefusedError(root / folder, fault.code, f"{fault.path}: {fault.message}")
    digests = {path: _digest_of(raw) for path, raw in contents.items()}
    origin = FolderOrigin(server, uri, digests)
    target = root.joinpath(*folder.split("/"))
    try:
        with _parent_folders(root, target.parent):
            exists = _check_place(target, origin, force=force)
            if exists and not force and _read_origin(target) == origin:
                return Installed.UNCHANGED
            with hidden_folder(target.parent) as temporary:
                _write(temporary / target.name, contents, origin)
                _move_into_place(temporary, target, exists=exists)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InstallRefusedError(target, Reason.UNWRITABLE, f"cannot be written: {reason}") from None
    return Installed.REPLACED if exists else Installed.WRITTEN


@contextmanager
def _parent_folders(root: Path, parent: Path) -> Generator[None]:
    """Create the folders down to `parent`, without following links; remove the created ones if the block fails."""
    made: list[Path] = []
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = root
        for name in parent.relative_to(root).parts:
            path /= name
            if _make_folder(path):
                made.append(path)
        yield
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir()
        raise


def _make_folder(path: Path) -> bool:
    """Create a folder if it is missing, and tell whether it was."""
    kind = kind_of(path)
    if kind is None:
        path.mkdir()
    elif kind != stat.S_IFDIR:
        message = "expected a folder, found a link or a file; move it away"
        raise InstallRefusedError(path, Reason.FOLDER_TAKEN, message)
    elif kind_of(path / ORIGIN_FILE) is not None:
        message = "this folder belongs to another fetched skill; choose another with --to"
        raise InstallRefusedError(path, Reason.FOLDER_TAKEN, message)
    return kind is None


def _check_place(target: Path, origin: FolderOrigin, *, force: bool) -> bool:
    """Tell whether there is a folder to replace; refuse to replace content that must be kept."""
    kind = kind_of(target)
    if kind is None:
        return False
    if kind != stat.S_IFDIR:
        raise InstallRefusedError(target, Reason.FOLDER_TAKEN, "this is not a folder; move it away")
    if force:
        return True
    before = _read_origin(target)
    if before is None:
        message = "this folder was not fetched; choose another with --to, or replace it with --force"
        raise InstallRefusedError(target, Reason.FOLDER_TAKEN, message)
    if not before.same_skill(origin):
        message = (
            f"this folder was fetched from {one_line(before.server)}, {one_line(before.uri)}; "
            "choose another with --to, or replace it with --force"
        )
        raise InstallRefusedError(target, Reason.FOLDER_TAKEN, message)
    edited = edited_files(target, before.files, record=ORIGIN_FILE)
    if edited:
        message = (
            f"edited since it was fetched: {named_files(edited)}; "
            "replace it with --force, or keep a copy elsewhere first"
        )
        raise InstallRefusedError(target, Reason.EDITED_COPY, message)
    return True


def _read_origin(folder: Path) -> FolderOrigin | None:
    """Return the record in a folder; None if there is no readable one."""
    try:
        with Reader() as reader:
            raw, _ = reader.read(Location(folder, ORIGIN_FILE), _MAX_RECORD)
        match json.loads(raw):
            case {"version": 1, "server": str(server), "uri": str(uri), "files": dict(files)}:
                return FolderOrigin(server, uri, {str(path): str(digest) for path, digest in files.items()})
    except (FileRefusedError, ValueError, RecursionError):
        pass
    return None


@contextmanager
def hidden_folder(parent: Path | None, prefix: str = ".skillserve-") -> Generator[Path]:
    """Create a private folder in `parent`, or in the system's temporary folder, and remove it after the block."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield folder
    finally:
        remove_hidden(folder)


def remove_hidden(folder: Path) -> None:
    """Remove a temporary folder; log a warning if that fails."""
    if left := remove_tree(folder):
        logger.warning("a temporary folder cannot be removed: %s: %s", folder, one_line(left))


def _write(folder: Path, contents: Mapping[str, bytes], origin: FolderOrigin) -> None:
    folder.mkdir()
    for path, raw in contents.items():
        file = folder.joinpath(*path.split("/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        # Exclusive, so that two paths which this disk treats as one fail instead of overwriting each other.
        with file.open("xb") as stream:
            stream.write(raw)
    record = {"version": _VERSION, "server": origin.server, "uri": origin.uri, "files": dict(origin.files)}
    with (folder / ORIGIN_FILE).open("x", encoding="utf-8") as stream:
        stream.write(json.dumps(record, indent=2) + "\n")


def _move_into_place(temporary: Path, target: Path, *, exists: bool) -> None:
    new = temporary / target.name
    if not exists:
        new.rename(target)
        return
    # Beside the temporary folder, because that is removed even if the previous content cannot be restored.
    aside = temporary.with_name(f"{temporary.name}-before")
    if replace_folder(new, target, aside) == aside:
        remove_hidden(aside)
