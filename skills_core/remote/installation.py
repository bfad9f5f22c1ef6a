"""Install a verified skill into a folder, completely or not at all, without overwriting other content.

The skill is written to a hidden folder next to its place and then renamed. A record in the folder holds its origin and
digests, so that a later fetch can distinguish an unchanged copy from an edited one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason, one_line
from skills_core.disk.files import Location, Reader
from skills_core.disk.replacement import remove_tree, replace_folder
from skills_core.errors import FileRefusedError, InstallRefusedError
from skills_core.remote.disk_names import ORIGIN_FILE, disk_faults
from skills_core.remote.edits import edited_files, kind_of, named_files

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

__all__ = ["Installed", "Origin", "install"]

logger = logging.getLogger(__name__)

_VERSION = 1
_MAX_RECORD = 8 * 1024 * 1024


class Installed(StrEnum):
    """How the installation of a skill ended."""

    WRITTEN = "written"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a folder's content; `files` maps each path to its digest."""

    server: str
    uri: str
    files: Mapping[str, str]

    def same_skill(self, other: Origin | None) -> bool:
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
    digests = {path: "sha256:" + hashlib.sha256(raw).hexdigest() for path, raw in contents.items()}
    origin = Origin(server, uri, digests)
    target = root.joinpath(*folder.split("/"))
    try:
        with _parent_folders(root, target.parent):
            exists = _check_place(target, origin, force=force)
            if exists and not force and _read_origin(target) == origin:
                return Installed.UNCHANGED
            with _temporary_sibling(target) as temporary:
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


def _check_place(target: Path, origin: Origin, *, force: bool) -> bool:
    """Tell whether there is a folder to replace.

    Raises:
        InstallRefusedError: the place holds content that must not be replaced.
    """
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


def _read_origin(folder: Path) -> Origin | None:
    """Return the record in a folder; None if there is no readable one."""
    try:
        with Reader() as reader:
            raw, _ = reader.read(Location(folder, ORIGIN_FILE), _MAX_RECORD)
        match json.loads(raw):
            case {"version": 1, "server": str(server), "uri": str(uri), "files": dict(files)}:
                return Origin(server, uri, {str(path): str(digest) for path, digest in files.items()})
    except (FileRefusedError, ValueError, RecursionError):
        pass
    return None


@contextmanager
def _temporary_sibling(target: Path) -> Generator[Path]:
    """Create a private hidden folder next to `target`, and remove it after the block."""
    temporary = Path(tempfile.mkdtemp(prefix=".skillserve-", dir=target.parent))
    try:
        yield temporary
    finally:
        _remove(temporary)


def _remove(folder: Path) -> None:
    if left := remove_tree(folder):
        logger.warning("a temporary folder cannot be removed: %s: %s", folder, one_line(left))


def _write(folder: Path, contents: Mapping[str, bytes], origin: Origin) -> None:
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
        _remove(aside)
