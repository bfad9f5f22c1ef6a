"""Files: secrets in them, and what a review of text does not see.

The latter are programs, archives, macros, disguised types, unread files and links.
"""

from __future__ import annotations

import io
import math
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import unquote

from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import first_in_lines, severity_at
from skills_core.audit.search import find
from skills_core.texts import TOKEN_FORMS

if TYPE_CHECKING:
    from skills_core.audit.skill import AuditedFile, SkillUnderAudit


_FORMS = tuple(f"{form.beginning}{form.rest}" for form in TOKEN_FORMS)
_TOKEN = re.compile(
    "|".join(rf"(?P<t{number}>(?<![A-Za-z0-9_/+-])(?:{form})(?![A-Za-z0-9_]))" for number, form in enumerate(_FORMS))
)
_TOKEN_START = f"(?-i:{'|'.join(_FORMS)})"
# For a fast search of the places where `_TOKEN` is tried; this search does not look at what stands around.

_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\n|\s)*([A-Za-z0-9+/=:,\\ \s-]{0,400})"
)
_KEY_DATA = re.compile(r"[A-Za-z0-9+/]{40,}")
_MIN_KEY_ENTROPY = 4.0

_URL = re.compile(
    r"://[^\s:/@<>\"'`{}$]{1,64}:([^\s:/@<>\"'`{}$\[\]]{8,128})@"
    r"(?!(?:localhost|127\.|host\b|db:|postgres:|redis:))[\w.-]{3,}"
)
_URL_START = r"://[^\s:/@<>\"'`{}$]{1,64}:[^\s:/@<>\"'`{}$\[\]]{8,128}@"
_NAMED_START = r"(?:key|secret|token|passw(?:or)?d)[\"']?\s{0,4}[:=]"
_NAMED = re.compile(
    r"""(?i)(?:(?<![A-Za-z])(?:secret|token|passw(?:or)?d)|(?:api|secret|access|private|encryption)[_-]?key)["']?\s{0,4}(?:=>|:=|=|:)\s{0,4}
        (?:(?P<quote>["'])(?P<quoted>[^"'\s]{16,200})(?P=quote)|(?P<bare>[A-Za-z0-9_+/=.-]{24,200})(?=\s*$))""",
    re.VERBOSE | re.MULTILINE,
)
_LONGEST_NAME = 12
_LONGEST_VALUE = 256
_MIN_ENTROPY = 3.7
_MIN_TOKEN_ENTROPY = 3.0
_MIN_DIGITS = 2
_MIN_LETTERS = 4
_LONG = 20
_VOWELS = 0.28
# The share of vowels that English words have more of, and random letters less.

_PLACEHOLDER = re.compile(
    r"(?i)example|sample|dummy|your|placeholder|changeme|change[_-]me|replace|redacted|x{5,}|\*{3,}|\.\.\.|<|>|\$\{|\{\{|insert|fake|mock|todo|1234567|abcdef"
    r"|(?<![a-z])test(?![a-z])|localhost|0{8,}|sha\d{3}-|-here\b"
)
_NOT_RANDOM = re.compile(
    r"^(?:[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}|[A-Z]+(?:_[A-Z0-9]+)+|[A-Za-z]+(?:[-_./][A-Za-z]+\d*)+|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|/.*|\d+)$"
)


def _secrets(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        for start, what in sorted((*_tokens(file), *_keys(file), *_passwords(file))):
            yield Hit(file, f"has {what}", start, Severity.WARNING if file.is_eval else None, evidence=what)


def _tokens(file: AuditedFile) -> Iterator[tuple[int, str]]:
    text = file.text or ""
    for found in find(_TOKEN_START, text):
        match = _TOKEN.match(text, found.start)
        token = match[0] if match else ""
        if (
            match
            and not _PLACEHOLDER.search(token)
            and not _is_sequence(token)
            and _entropy(token) > _MIN_TOKEN_ENTROPY
        ):
            number = int((match.lastgroup or "t0")[1:])
            yield match.start(), f"a token of {TOKEN_FORMS[number].service} ({_masked(token)})"


def _keys(file: AuditedFile) -> Iterator[tuple[int, str]]:
    for match in _PRIVATE_KEY.finditer(file.text or ""):
        data = _KEY_DATA.search(match[1])
        if data and _entropy(data[0]) > _MIN_KEY_ENTROPY and not _PLACEHOLDER.search(data[0]):
            yield match.start(), "a private key"


def _passwords(file: AuditedFile) -> Iterator[tuple[int, str]]:
    text = file.text or ""
    for found in find(_URL_START, text):
        match = _URL.match(text, found.start)
        if match and _is_random(match[1]):
            yield match.start(1), f"a password in an address ({_masked(match[1])})"
    for found in find(_NAMED_START, text):
        start = max(found.start - _LONGEST_NAME, 0)
        match = next(
            (each for each in _NAMED.finditer(text, start, found.end + _LONGEST_VALUE) if each.end() >= found.end), None
        )
        value = (match["quoted"] or match["bare"]) if match else ""
        if match and _is_random(value):
            yield match.start(), f"a value that looks like a secret ({_masked(value)})"


def _is_random(value: str) -> bool:
    """Tell whether a value looks generated: varied characters, and neither words nor an example."""
    letters = [char for char in value.lower() if char.isalpha()]
    has_digits = sum(char.isdigit() for char in value) >= _MIN_DIGITS
    is_gibberish = (
        len(letters) >= _LONG
        and sum(char in "aeiou" for char in letters) < _VOWELS * len(letters)
        and not value.islower()
    )
    return (
        (has_digits or is_gibberish)
        and len({*letters}) >= _MIN_LETTERS
        and _entropy(value) >= _MIN_ENTROPY
        and not _PLACEHOLDER.search(value)
        and not _is_sequence(value)
        and not _NOT_RANDOM.match(value)
    )


def _is_sequence(token: str) -> bool:
    """Tell whether somebody typed a token as an example: it has `abcdef`, `12345` or `qwerty`."""
    letters = "".join(char for char in token.lower() if char.isalpha())
    digits = "".join(char for char in token if char.isdigit())
    return any(alphabet in text for alphabet, text in (("abcdef", letters), ("12345", digits), ("qwerty", letters)))


def _entropy(text: str) -> float:
    """Return the bits of information in a character of a text, by the frequencies of its characters."""
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in Counter(text).values())


def _masked(token: str) -> str:
    """Return the beginning of a secret, enough to find it and too little to use it."""
    return f"{token[:6]}…"


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

_NATIVE_MAGICS = (b"\x7fELF", b"\0asm", b"dex\n03", b"!<arch>\n", b"\xca\xfe\xba\xbe")
_MACH_O_MAGICS = (b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe")
_ARCHIVE_MAGICS = (b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x28\xb5\x2f\xfd")
_IMAGE_MAGICS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*", b"\0\0\1\0")
_FONT_MAGICS = (b"wOFF", b"wOF2", b"OTTO", b"true\0", b"\0\1\0\0\0", b"ttcf")
_MAGIC = {
    **dict.fromkeys((*_NATIVE_MAGICS, *_MACH_O_MAGICS), FileType.NATIVE),
    **dict.fromkeys(_ARCHIVE_MAGICS, FileType.ARCHIVE),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": FileType.OLE,
    b"%PDF-": FileType.PDF,
    **dict.fromkeys(_IMAGE_MAGICS, FileType.IMAGE),
    **dict.fromkeys(_FONT_MAGICS, FileType.FONT),
    **dict.fromkeys((b"ID3", b"OggS", b"fLaC", b"\x1a\x45\xdf\xa3"), FileType.MEDIA),
    b"SQLite format 3\0": FileType.DATABASE,
    b"#!": FileType.SCRIPT,
}
_MAGICS = tuple(_MAGIC)
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
    found = next(kind for magic, kind in _MAGIC.items() if raw.startswith(magic)) if raw.startswith(_MAGICS) else None
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
        "secret",
        Severity.ERROR,
        "Secret in a file",
        "Everybody who gets the skill gets the secret, and every model that reads the file.",
        "Revoke the secret, remove it, and read it from a variable or a keychain.",
        lambda skill: first_in_lines(_secrets(skill)),
        8.0,
    ),
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
