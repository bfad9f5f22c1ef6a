"""Types of files: by their first bytes, and by the ending of their name."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skills_core.audit.skill.skill_under_audit import AuditedFile

__all__ = ["FileType", "type_of", "types_of_suffix"]


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
