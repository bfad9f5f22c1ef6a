"""Read a skill's folder for an audit: every file, also those that are never served, within bounds.

Links are not followed. What cannot be read, and what lies beyond a bound, is a file with a fault.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit
from skills_core.diagnostics import printable
from skills_core.disk.files import Location, Reader
from skills_core.errors import FileRefusedError
from skills_core.system_faults import system_message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["read_file_of_skill", "read_folder"]

MAX_FILES = 4096
MAX_FOLDERS = 4096
MAX_DEPTH = 32
MAX_BYTES = 128 * 1024 * 1024
"""Bytes of all files of one skill that are read; the Skills extension allows 16 MiB."""

_REPOSITORIES = frozenset({".git", ".hg", ".svn"})
# Databases of version control are no part of a skill, and huge.


def read_folder(root: Path) -> SkillUnderAudit:
    """Return the skill in the folder `root` with every file below it."""
    with Reader() as reader:
        files = list(_bounded(reader, root, _walk(reader, root)))
    return SkillUnderAudit.of(root.resolve().name, files)


def read_file_of_skill(path: Path) -> SkillUnderAudit:
    """Return the skill that consists of one file, such as a document or a convention file."""
    with Reader() as reader:
        file = _read(reader, path.parent, AuditedFile(path.name), MAX_BYTES)
    return SkillUnderAudit.of(path.stem, [file], path.name)


def _bounded(reader: Reader, root: Path, found: Iterator[AuditedFile]) -> Iterator[AuditedFile]:
    """Read the files at the paths that were found, until a bound is reached; pass files with faults on."""
    left = MAX_BYTES
    for number, each in enumerate(found):
        if number >= MAX_FILES:
            yield AuditedFile(each.path, fault=f"the skill has more than {MAX_FILES} files, and the audit ends here")
            return
        file = each if each.fault else _read(reader, root, each, left)
        left -= len(file.raw)
        yield file


def _walk(reader: Reader, root: Path) -> Iterator[AuditedFile]:
    """Yield the regular files without their bytes, breadth first, and a file with a fault for anything else."""
    waiting, number = [""], 0
    while number < len(waiting):
        folder = waiting[number]
        number += 1
        if number > MAX_FOLDERS:
            yield AuditedFile(folder, fault=f"the skill has more than {MAX_FOLDERS} folders, and the audit ends here")
            return
        if folder.count("/") >= MAX_DEPTH:
            yield AuditedFile(folder, fault=f"the folder lies deeper than {MAX_DEPTH} levels")
            continue
        try:
            with reader.entries(Location(root, folder)) as entries:
                listed = sorted(_kinds(root, folder, entries))
        except OSError as error:
            yield AuditedFile(folder or ".", fault=f"the folder cannot be listed: {system_message(error)}")
            continue
        for path, kind, detail in listed:
            if kind == "folder":
                waiting.append(path)
            elif kind == "file":
                yield AuditedFile(path, executable=bool(detail))
            elif kind == "link":
                yield AuditedFile(path, fault="a symbolic link, which is not followed", link=detail)
            else:
                yield AuditedFile(path, fault=detail)


def _kinds(root: Path, folder: str, entries: Iterator[os.DirEntry[str]]) -> Iterator[tuple[str, str, str]]:
    """Yield the path of each entry, its kind, and a detail: the target of a link, `x` for a program, a fault."""
    for entry in entries:
        path = posixpath.join(folder, entry.name)
        try:
            if entry.is_symlink() or getattr(entry, "is_junction", bool)():
                yield path, "link", printable(os.readlink(root / path))  # noqa: PTH115 - the target stays text
            elif entry.is_dir(follow_symlinks=False):
                if entry.name not in _REPOSITORIES:
                    yield path, "folder", ""
            elif entry.is_file(follow_symlinks=False):
                yield path, "file", "x" * bool(entry.stat(follow_symlinks=False).st_mode & 0o111)
            else:
                yield path, "special", "not a regular file"
        except OSError as error:
            yield path, "unread", system_message(error)


def _read(reader: Reader, root: Path, file: AuditedFile, left: int) -> AuditedFile:
    try:
        raw, _ = reader.read(Location(root, file.path))
    except FileRefusedError as error:
        return replace(file, fault=error.message)
    if len(raw) > left:
        return replace(file, fault=f"the skill has more than {MAX_BYTES >> 20} MiB, and the audit reads no more")
    return replace(file, raw=raw)
