"""Write a new skill from a template, and the fixes of `validate --fix`.

`skills_core.authoring.fixes` decides what to fix. A fix replaces a SKILL.md completely or not at all, and keeps its
mode. Nothing is written through a link, outside the given folder, or over a file that has changed since it was read.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.authoring.fixes import Fix, fix_main
from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.disk.files import Fingerprint, Location, Reader
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.disk.sources import SkillKind
from skills_core.disk.writing import random_name, replace_within
from skills_core.errors import FileRefusedError, InvalidSourceError, system_message
from skills_core.format.frontmatter import DESCRIPTION_LIMIT, NAME_LIMIT, name_fault, name_from
from skills_core.loading.loader import MAX_MAIN_SIZE

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill


_DESCRIPTION = "Does one thing well. Use when the user asks for that thing, names its files, or describes the problem."

_TEMPLATE = """\
---
name: {name}
description: {description}
---

# {title}

Write to the model, in the imperative: what to do, in which order, and how to tell that it is done.

1. Look at what is there before changing anything.
2. Do the work. Name scripts and further reading by their paths here, such as `scripts/check.py` or
   `references/format.md`: they are read only when they are needed.
3. Check the result, and say what was done.

Say what not to do where it matters, and give one short example of a good result.
"""


def write_skill(directory: Path, name: str, description: str | None = None) -> Path:
    """Write the skill `name` below `directory` and return its SKILL.md.

    Raises:
        InvalidSourceError: the name or description breaks a rule, or the folder exists or cannot be written.
    """
    folder = directory / name
    fault = name_fault(name) if name else "is empty"
    if fault is None and (len(name) > NAME_LIMIT or not name.isascii()):
        fault = f"may have up to {NAME_LIMIT} characters: a to z, digits and hyphens"
    if fault is not None:
        valid = name_from(name)
        hint = f"; try {valid}" if valid else ""
        raise InvalidSourceError(folder, Reason.INVALID_NAME, f"the name {name[:NAME_LIMIT]!r} {fault}{hint}")
    text = " ".join((_DESCRIPTION if description is None else description).split())
    if not 1 <= len(text) <= DESCRIPTION_LIMIT:
        message = f"the description has {len(text)} characters; from 1 to {DESCRIPTION_LIMIT} are allowed"
        raise InvalidSourceError(folder, Reason.DESCRIPTION_TOO_LONG, message)
    main = folder / "SKILL.md"
    content = _TEMPLATE.format(name=name, description=json.dumps(text, ensure_ascii=False), title=_title(name))
    try:
        folder.mkdir(parents=True)
        main.write_text(content, encoding="utf-8", newline="\n")
    except FileExistsError:
        message = "the folder already exists; choose another name, or another place with --to"
        raise InvalidSourceError(folder, Reason.NOT_A_DIRECTORY, message) from None
    except OSError as error:
        message = f"cannot be written: {system_message(error)}"
        raise InvalidSourceError(folder, Reason.UNREADABLE, message) from None
    return main


def _title(name: str) -> str:
    return name.replace("-", " ").capitalize()


@dataclass(frozen=True, slots=True)
class AppliedFixes:
    """The fixes applied to one SKILL.md with the printable path `path`; `fault` says why it could not be written."""

    path: str
    fixes: tuple[Fix, ...] = ()
    fault: Diagnostic | None = None


def apply_fixes(skill: Skill) -> AppliedFixes | None:
    """Fix the SKILL.md of a skill on disk; None if nothing is to be fixed or the file was reached by a link.

    Single documents and convention files follow other rules and are not changed.
    """
    main = skill.content.main
    if main is None or main.linked is not None or skill.content.kind is not SkillKind.FOLDER:
        return None
    location = Location(skill.source.root, skill.content.folder)
    shown = printable(str(location.path / main.path))
    try:
        with Reader() as reader:
            fixes = _fix_file(reader, location, main.path, skill.source.name_of(skill.content.folder))
    except (OSError, FileRefusedError) as error:
        why = error.message if isinstance(error, FileRefusedError) else system_message(error)
        fault = Diagnostic(Severity.ERROR, Reason.UNWRITABLE, f"cannot be fixed: {why}", shown)
        return AppliedFixes(shown, fault=fault)
    return AppliedFixes(printable(str(location.path / MAIN_FILE)), fixes) if fixes else None


def _fix_file(reader: Reader, location: Location, name: str, folder: str) -> tuple[Fix, ...]:
    relative = f"{location.relative}/{name}" if location.relative else name
    raw, fingerprint = reader.read(Location(location.root, relative), MAX_MAIN_SIZE)
    fixed = fix_main(raw, folder)
    fixes = fixed.fixes
    with reader.within(location) as (handle, prefix):
        if name != MAIN_FILE and MAIN_FILE in _names_in(handle, prefix):
            raise FileExistsError(errno.EEXIST, f"a {MAIN_FILE} has appeared meanwhile")
        if fixed.fixes:
            _replace(handle, prefix, name, fixed.raw, fingerprint)
        if name == MAIN_FILE_LOWERCASE:
            _rename_to_main(handle, prefix, name)
            fixes = (Fix(Reason.FILE_NAME_CASE, f"renamed {name} to {MAIN_FILE}", 1), *fixes)
    return fixes


def _names_in(handle: int | None, prefix: str) -> list[str]:
    """Return the names in the folder that `Reader.within` opened, as spelled on disk."""
    return os.listdir(prefix if handle is None else handle)  # noqa: PTH208 - pathlib takes no handle


def _replace(handle: int | None, prefix: str, name: str, raw: bytes, before: Fingerprint) -> None:
    """Replace the content of a file, unless it has changed since it was read."""
    status = os.stat(prefix + name, dir_fd=handle, follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode) or Fingerprint.of(status) != before:
        raise BlockingIOError(errno.EAGAIN, "the file has just changed; try again")
    finish = partial(_copy_owner_and_mode, status)
    replace_within(handle, prefix, name, raw, beside=f".skillserve-{random_name()}", finish=finish)


def _rename_to_main(handle: int | None, prefix: str, name: str) -> None:
    move = partial(os.replace, src_dir_fd=handle, dst_dir_fd=handle)
    move(prefix + name, prefix + MAIN_FILE)
    if MAIN_FILE not in _names_in(handle, prefix):
        # On some disks that ignore case, a rename between spellings has no effect.
        temporary = f"{prefix}.skillserve-{random_name()}"
        move(prefix + name, temporary)
        move(temporary, prefix + MAIN_FILE)


def _copy_owner_and_mode(status: os.stat_result, descriptor: int) -> None:
    """Give an open file the owner and mode of another, as far as the system and the permissions allow."""
    if hasattr(os, "fchown"):
        with suppress(OSError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
