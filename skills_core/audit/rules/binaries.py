"""Files that a review of text does not see: bytecode, native programs, archives, macros, disguised types."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.skill.file_types import FileType, type_of, types_of_suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["RULES"]

_OLE_MACROS = ("_VBA_PROJECT".encode("utf-16-le"), b"Attribut\x00e VB_", b"VBA6\\VBE6.DLL")
_MAX_NAMES = 10_000


def _of_type(kind: FileType, message: str) -> Callable[[SkillUnderAudit], Iterator[Hit]]:
    def check(skill: SkillUnderAudit) -> Iterator[Hit]:
        for file in skill.files.values():
            if type_of(file) is kind:
                yield Hit(file, message, evidence=kind)

    return check


def _bytecode(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.files.values():
        if type_of(file) is FileType.BYTECODE or file.suffix in {".pyc", ".pyo"}:
            yield Hit(
                file, "is compiled Python, which runs instead of a source that says something else", evidence="bytecode"
            )
        elif "__pycache__" in file.path.split("/")[:-1]:
            yield Hit(file, "is in a cache of compiled Python", evidence="bytecode")


def _macros(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.files.values():
        if has_macros(file):
            yield Hit(file, "is a document with macros, which run when somebody opens it", evidence="macros")


def has_macros(file: AuditedFile) -> bool:
    """Tell whether a file is an office document with macros."""
    kind = type_of(file)
    if kind is FileType.OLE:
        return any(mark in file.raw for mark in _OLE_MACROS)
    if kind in {FileType.OFFICE, FileType.ARCHIVE} and file.raw.startswith(b"PK"):
        return any(
            name.rpartition("/")[2].lower() == "vbaproject.bin" or name.startswith("Basic/") for name in _members(file)
        )
    return False


def _members(file: AuditedFile) -> list[str]:
    try:
        with zipfile.ZipFile(io.BytesIO(file.raw)) as archive:
            return archive.namelist()[:_MAX_NAMES]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError):
        return []


def _archives(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.files.values():
        if type_of(file) is FileType.ARCHIVE and file.suffix not in {".pyc", ".pyo"}:
            yield Hit(file, "is an archive: what is in it was not checked", evidence="archive")


def _mismatches(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.files.values():
        kind, expected = type_of(file), types_of_suffix(file)
        if kind is FileType.BYTECODE and expected is None:
            expected = frozenset()
        if kind is not None and expected is not None and kind not in expected:
            yield Hit(file, f"is named as {file.suffix} but is {kind}", evidence=kind)


RULES = (
    Rule(
        "bytecode",
        Severity.ERROR,
        "Compiled Python",
        "Python runs the compiled file, whatever the source beside it says.",
        "Delete the file; Python compiles the source again.",
        _bytecode,
        7.5,
    ),
    Rule(
        "native-binary",
        Severity.WARNING,
        "Native program",
        "Nobody can review what a compiled program does.",
        "Ship the source, or install a pinned version from a package registry.",
        _of_type(FileType.NATIVE, "is a compiled program, which the audit cannot check"),
        6.0,
    ),
    Rule(
        "archive",
        Severity.WARNING,
        "Archive",
        "What an archive holds is not checked, and unpacks later.",
        "Put the files themselves into the skill.",
        _archives,
        5.0,
    ),
    Rule(
        "office-macro",
        Severity.WARNING,
        "Office document with macros",
        "A macro is a program inside a document.",
        "Save the document without macros (.docx, .xlsx, .pptx).",
        _macros,
        6.0,
    ),
    Rule(
        "type-mismatch",
        Severity.ERROR,
        "File of another type than its name says",
        "A file that hides its type hides what it is for.",
        "Give the file the ending of its type, or remove it.",
        _mismatches,
        7.0,
    ),
)
