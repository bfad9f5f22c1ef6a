"""Files that a review of text does not see: programs, archives, macros, disguised types, unread files, links."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import unquote

from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import severity_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skills_core.audit.skill import AuditedFile, SkillUnderAudit


class FileType(StrEnum):
    """What a file is; the values complete "is"."""

    BYTECODE = "compiled Python"
    NATIVE = "a compiled program"
    ARCHIVE = "an archive"
    OFFICE = "an office document"
    OLE = "an old office document"
    SCRIPT = "a script"
    PDF = "a PDF"
    IMAGE = "an image"
    FONT = "a font"
    MEDIA = "sound or film"
    DATABASE = "a database"
    TEXT = "text"


_PYTHON_MAGIC = range(3000, 3900)
# The numbers of Python 3.0 and later in the first two bytes, which `\r\n` follows.

_MAGIC = (
    (b"\x7fELF", FileType.NATIVE),
    (b"\0asm", FileType.NATIVE),
    *(
        (magic, FileType.NATIVE)
        for magic in (
            b"\xfe\xed\xfa\xce",
            b"\xfe\xed\xfa\xcf",
            b"\xce\xfa\xed\xfe",
            b"\xcf\xfa\xed\xfe",
            b"\xca\xfe\xba\xbe",
        )
    ),
    (b"dex\n03", FileType.NATIVE),
    (b"!<arch>\n", FileType.NATIVE),
    *(
        (magic, FileType.ARCHIVE)
        for magic in (
            b"\x1f\x8b\x08",
            b"BZh",
            b"\xfd7zXZ\0",
            b"7z\xbc\xaf\x27\x1c",
            b"Rar!\x1a\x07",
            b"\x28\xb5\x2f\xfd",
        )
    ),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", FileType.OLE),
    (b"%PDF-", FileType.PDF),
    *(
        (magic, FileType.IMAGE)
        for magic in (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*", b"\0\0\1\0")
    ),
    *((magic, FileType.FONT) for magic in (b"wOFF", b"wOF2", b"OTTO", b"true\0", b"\0\1\0\0\0", b"ttcf")),
    *((magic, FileType.MEDIA) for magic in (b"ID3", b"OggS", b"fLaC", b"\x1a\x45\xdf\xa3")),
    (b"SQLite format 3\0", FileType.DATABASE),
    (b"#!", FileType.SCRIPT),
)
_MAGICS = tuple(magic for magic, _ in _MAGIC)
_RIFF = {b"WEBP": FileType.IMAGE, b"WAVE": FileType.MEDIA, b"AVI ": FileType.MEDIA}
_OFFICE_MARKS = (b"[Content_Types].xml", b"mimetypeapplication/vnd.oasis.opendocument", b"mimetypeapplication/epub")
_TAR_PLACE = 257
_MAGIC_END = 4

_OFFICE = (
    ".docx .docm .dotx .dotm .xlsx .xlsm .xltx .xltm .xlsb .pptx .pptm .potx .potm .ppsx .odt .ods .odp .epub .vsdx"
)
_OF_SUFFIX = {
    ".pyc .pyo": {FileType.BYTECODE},
    ".so .dll .dylib .exe .wasm .class .o .a .node .pyd": {FileType.NATIVE},
    ".zip .tar .gz .tgz .bz2 .xz .7z .rar .zst .tbz .txz": {FileType.ARCHIVE},
    ".jar .whl .egg .war .apk .skill .nupkg .crx .xpi .vsix .mcpb .dxt": {FileType.ARCHIVE},
    _OFFICE: {FileType.OFFICE},
    ".doc .xls .ppt .msg .xlt": {FileType.OLE},
    ".pdf": {FileType.PDF},
    ".png .jpg .jpeg .gif .webp .bmp .ico .tif .tiff .heic .avif": {FileType.IMAGE},
    ".ttf .otf .woff .woff2 .ttc .eot": {FileType.FONT},
    ".mp3 .ogg .flac .wav .webm .mkv .mp4 .mov .avi .m4a": {FileType.MEDIA},
    ".sqlite .sqlite3 .db": {FileType.DATABASE},
    ".md .markdown .txt .rst .csv .tsv .json .jsonl .yaml .yml .toml .ini .cfg .conf": {FileType.TEXT},
    ".xml .svg .html .htm .css .tex .log": {FileType.TEXT},
    ".py .sh .bash .zsh .js .mjs .cjs .ts .rb .pl .ps1 .bat .cmd .php .lua .r .go .rs": {
        FileType.TEXT,
        FileType.SCRIPT,
    },
}
_TYPES = {suffix: frozenset(types) for suffixes, types in _OF_SUFFIX.items() for suffix in suffixes.split()}
_SCRIPT_MAY_BE = frozenset({FileType.TEXT, FileType.ARCHIVE, FileType.NATIVE})
# Types whose endings say nothing against a first line `#!`: `.txt` lists of commands, self-extracting programs.

_SHARED = frozenset({FileType.IMAGE, FileType.MEDIA})
# Several formats of both share a container.

_NEVER_TEXT = frozenset({FileType.IMAGE, FileType.MEDIA, FileType.FONT, FileType.PDF, FileType.OFFICE, FileType.OLE})
_POINTER = "version https://git-lfs"


def type_of(file: AuditedFile) -> FileType | None:
    """Return the type of a file by its content, None if its first bytes tell none."""
    raw = file.raw
    found = next((kind for magic, kind in _MAGIC if raw.startswith(magic)), None) if raw.startswith(_MAGICS) else None
    return found or _of_container(raw) or _as_text(file)


def _of_container(raw: bytes) -> FileType | None:
    """Return the type of a file whose first bytes alone do not tell it."""
    if raw[2:_MAGIC_END] == b"\r\n" and int.from_bytes(raw[:2], "little") in _PYTHON_MAGIC:
        return FileType.BYTECODE
    if raw.startswith(b"PK\x03\x04"):
        return FileType.OFFICE if any(mark in raw for mark in _OFFICE_MARKS) else FileType.ARCHIVE
    if raw.startswith(b"MZ") and b"\0" in raw[:64]:
        return FileType.NATIVE
    if raw.startswith(b"RIFF"):
        return _RIFF.get(raw[8:12])
    if raw[_TAR_PLACE : _TAR_PLACE + 5] == b"ustar":
        return FileType.ARCHIVE
    return FileType.MEDIA if raw[4:8] == b"ftyp" else None


def _as_text(file: AuditedFile) -> FileType | None:
    """Return TEXT for a text in a file whose name promises a picture or a document."""
    promised = _TYPES.get(file.suffix, frozenset())
    is_text = bool(promised & _NEVER_TEXT) and bool(file.text) and not (file.text or "").startswith(_POINTER)
    return FileType.TEXT if is_text else None


def types_of_suffix(file: AuditedFile) -> frozenset[FileType] | None:
    """Return the types that the ending of a file's name allows, None if it tells none."""
    types = _TYPES.get(file.suffix)
    if types is None:
        return None
    if types & _SHARED:
        types |= _SHARED
    return types | {FileType.SCRIPT} if types & _SCRIPT_MAY_BE else types


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


_ABSOLUTE = re.compile(r"^(?:/|\\\\|[A-Za-z]:[/\\])")
_TARGET = re.compile(
    r"\]\(\s*<?((?:\.{1,2}/|file:|~/|/)[^)>\s]{1,300})>?(?:\s+[\"'][^)]*)?\)|^@((?:\.\./|~/|/)[^\s]{1,300})\s*$",
    re.MULTILINE,
)
_SENSITIVE = re.compile(r"/\.\w|^/(?:etc|root|home|proc|var)/|^~/|^file:|private|secret|credential", re.IGNORECASE)


def _symbolic_links(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.files.values():
        if file.link is None:
            continue
        target = file.link.replace("\\", "/")
        inside = not _ABSOLUTE.match(file.link) and not _leaves(file, target)
        if not inside:
            yield Hit(file, f"is a link to {file.link!r}, outside of the skill", evidence=file.link)


def _references(skill: SkillUnderAudit) -> Iterator[Hit]:
    """Yield links of Markdown to private or system files; `missing-file` names all others that leave the skill."""
    for file in skill.texts:
        if not file.is_markdown:
            continue
        for match in _TARGET.finditer(file.unfenced):
            group = 1 if match[1] else 2
            target = unquote(match[group])
            if _SENSITIVE.search(target) and (target.startswith(("~", "file:", "/")) or _leaves(file, target)):
                start = match.start(group)
                severity = severity_at(skill, file, start, Severity.ERROR)
                yield Hit(file, f"names {target!r}, outside of the skill", start, severity)


def _leaves(file: AuditedFile, target: str) -> bool:
    folder = posixpath.dirname(file.path)
    path = target.partition("#")[0].partition("?")[0]
    return posixpath.normpath(posixpath.join(folder, path)).split("/")[0] == ".."


def _unread(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.files.values():
        if file.fault and file.link is None:
            yield Hit(file, f"the audit could not read this file: {file.fault}")


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
    Rule(
        "link-outside",
        Severity.ERROR,
        "Link out of the skill",
        "An agent that follows the link reads, and may show, a file of the user that the skill does not own.",
        "Copy the file into the skill, or let the user name it.",
        lambda skill: (*_symbolic_links(skill), *_references(skill)),
        7.0,
    ),
    Rule(
        "unread-file",
        Severity.ERROR,
        "File that the audit could not read",
        "A file that cannot be read now may hold anything when an agent reads it later.",
        "Make the file readable, split it if it is too large, or remove it.",
        _unread,
        6.0,
    ),
)
