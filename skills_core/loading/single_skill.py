"""Read one skill or raise an exception, for programs that do not handle diagnostics.

A file is read as a library reads it, by the rules of `format.instructions`. Each reason that makes a skill invalid has
its class of errors, as in adk-skill; a catalog has the same as data.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import MAIN_FILE, find_main, list_folder, reason_for
from skills_core.disk.sources import SkillKind, Strictness, real_path
from skills_core.errors import (
    Fault,
    FileRefusedError,
    InvalidFrontmatterError,
    InvalidSkillError,
    InvalidSkillsRootError,
    MissingFieldError,
    SkillIoError,
    SkillYamlError,
    fault_of,
    is_absence,
    system_message,
)
from skills_core.format.instructions import kind_of_file, parse_instructions, parse_single_file, strictness_for
from skills_core.loading.loader import MAX_MAIN_SIZE

if TYPE_CHECKING:
    from skills_core.format.instructions import Instructions


_REASONS_OF: Mapping[type[InvalidSkillError], Sequence[Reason]] = {
    InvalidSkillsRootError: (Reason.MISSING_DIRECTORY, Reason.NOT_A_DIRECTORY),
    SkillIoError: (
        *(Reason.MISSING_SKILL_FILE, Reason.UNREADABLE, Reason.TOO_LARGE, Reason.PERMISSION_DENIED),
        *(Reason.SYMLINK, Reason.SPECIAL_FILE, Reason.NOT_UTF8),
    ),
    SkillYamlError: (
        *(Reason.INVALID_YAML, Reason.YAML_LIMIT, Reason.YAML_REPAIRED, Reason.DUPLICATE_KEY, Reason.NOT_JSON),
    ),
    MissingFieldError: (Reason.MISSING_NAME, Reason.MISSING_DESCRIPTION),
    InvalidFrontmatterError: (
        *(Reason.EMPTY, Reason.MISSING_FRONTMATTER, Reason.UNCLOSED_FRONTMATTER, Reason.STAR_FENCES),
        *(Reason.INVALID_NAME, Reason.NAME_TOO_LONG, Reason.NAME_MISMATCH, Reason.DESCRIPTION_TOO_LONG),
        *(Reason.COMPATIBILITY_TOO_LONG, Reason.UNKNOWN_FIELD, Reason.INVALID_FIELD, Reason.INVALID_PATTERN),
    ),
}
ERROR_OF = MappingProxyType({reason: error for error, reasons in _REASONS_OF.items() for reason in reasons})
"""The class of errors for each reason that makes a skill invalid, at any strictness."""

_NOT_A_SKILL = (
    "this is neither a folder with a SKILL.md nor a file that is a skill (SKILL.md, *.skill.md, *.md below .skills"
    " or .claude/skills, or a convention file such as AGENTS.md)"
)

_FIELD_OF = {
    **dict.fromkeys((Reason.MISSING_NAME, Reason.INVALID_NAME, Reason.NAME_TOO_LONG, Reason.NAME_MISMATCH), "name"),
    **dict.fromkeys((Reason.MISSING_DESCRIPTION, Reason.DESCRIPTION_TOO_LONG), "description"),
    Reason.COMPATIBILITY_TOO_LONG: "compatibility",
}


def read_skill(path: str | os.PathLike[str], strictness: Strictness = Strictness.REQUIRED) -> Instructions:
    """Read a skill by the path of its folder or its file; links below the folder are not followed.

    The file is a SKILL.md, a `*.skill.md`, a Markdown file below `.skills` or `.claude/skills`, or a convention file
    such as `AGENTS.md`.
    By default, name and description are required; see `Strictness`. Other findings are in the result's `diagnostics`.

    Raises:
        InvalidSkillsRootError: there is no such folder.
        SkillIoError: there is no such file, no SKILL.md in the folder, or it cannot be read.
        SkillYamlError: the frontmatter is not valid YAML, or parsers disagree on it.
        MissingFieldError: name or description is missing.
        InvalidFrontmatterError: there is no frontmatter, or it breaks a rule.
    """
    named = Path(path)
    above = real_path(named.parent) if _is_folder(named.parent) else named.parent
    by_file = not _is_folder(named) and kind_of_file(above.parts, named.name) is not None
    folder = named.parent if by_file else named
    if not _is_folder(folder):
        missing = not os.path.lexists(folder)
        reason = Reason.MISSING_DIRECTORY if missing else Reason.NOT_A_DIRECTORY
        raise _error(reason, "there is no such file or folder" if missing else _NOT_A_SKILL, named)
    root = folder.resolve()
    with Reader() as reader:
        main = named.name if by_file else _main_of(reader, root)
        try:
            raw, _ = reader.read(Location(root, main), MAX_MAIN_SIZE)
        except FileRefusedError as error:
            reason = Reason.MISSING_SKILL_FILE if error.fault is Fault.ABSENT else error.reason
            raise _error(reason, error.message, root / main) from None
    return parse_skill(raw, root / main, strictness)


def parse_skill(
    content: bytes | str, path: str | os.PathLike[str] = MAIN_FILE, strictness: Strictness = Strictness.REQUIRED
) -> Instructions:
    """Parse the content of a skill's file; `path` is its actual or intended path, and decides how it is read.

    A SKILL.md has the name of its folder, if `path` names one. All but convention files need frontmatter.

    Raises:
        SkillIoError: the content is not UTF-8.
        SkillYamlError: the frontmatter is not valid YAML, or parsers disagree on it.
        MissingFieldError: name or description is missing.
        InvalidFrontmatterError: there is no frontmatter, or it breaks a rule.
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    where = Path(path)
    instructions = _parse(raw, where, strictness)
    if instructions.fault is None:
        return instructions
    first = next(each for each in instructions.diagnostics if each.code is instructions.fault)
    raise ERROR_OF[first.code](where, first, _FIELD_OF.get(first.code), instructions.diagnostics)


def _parse(raw: bytes, where: Path, strictness: Strictness) -> Instructions:
    """Parse a file by the kind that its path makes it."""
    shown, folder = printable(str(where)), Path(os.path.normpath(where.parent))
    kind = kind_of_file(folder.parts, where.name)
    strictness = strictness_for(strictness, folder.parts, kind)
    if kind is SkillKind.FOLDER and folder.name not in {"", ".."}:
        return parse_instructions(raw, printable(folder.name), shown, strictness)
    found = None
    if kind is SkillKind.DOCUMENT or kind is SkillKind.CONVENTION:
        found = parse_single_file(raw, kind, printable(where.name), shown, strictness)
    # A file that a library would pass over is an error here.
    return found or parse_instructions(raw, printable(where.stem), shown, strictness, in_folder=False)


def _is_folder(path: Path) -> bool:
    # `Path.is_dir` reports some system errors as absence; which ones depends on the version of Python.
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except ValueError:
        return False
    except OSError as error:
        if fault_of(error) in {Fault.ABSENT, Fault.REFUSED}:
            return False
        raise _error(reason_for(error), system_message(error), path) from None


def _main_of(reader: Reader, root: Path) -> str:
    """Return the name of a folder's main file; `SKILL.md` if there is none."""
    try:
        with reader.entries(Location(root, "")) as entries:
            return find_main(list_folder(entries, fingerprints=False)) or MAIN_FILE
    except OSError as error:
        reason = Reason.MISSING_DIRECTORY if is_absence(error) else reason_for(error)
        raise _error(reason, system_message(error), root) from None


def _error(reason: Reason, message: str, path: Path) -> InvalidSkillError:
    diagnostic = Diagnostic(Severity.ERROR, reason, message, printable(str(path)))
    return ERROR_OF[reason](path, diagnostic, None, (diagnostic,))
