"""A skill as the rules see it: every file with its bytes and its text, and the parsed SKILL.md.

`read_folder` reads every file, also those that are never served, within bounds. Links are not followed. What cannot be
read, and what lies beyond a bound, is a file with a fault.
"""

from __future__ import annotations

import os
import posixpath
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from skills_core.audit.code_units import code_units, without_json
from skills_core.audit.search import SearchedText, plain_prose
from skills_core.diagnostics import printable
from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import EVALS, MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.disk.sources import Strictness
from skills_core.errors import FileRefusedError, system_message
from skills_core.format.instructions import parse_instructions
from skills_core.mentions.markdown import without_fences

if TYPE_CHECKING:
    from skills_core.audit.code_units import CodeUnit
    from skills_core.format.frontmatter import Frontmatter
    from skills_core.format.instructions import Instructions


T = TypeVar("T")

_MARKDOWN = (".md", ".markdown", ".mdx")
_SCRIPTS = (
    *(".py", ".pyw", ".sh", ".bash", ".zsh", ".fish", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".rb", ".pl"),
    *(".ps1", ".psm1", ".bat", ".cmd", ".php", ".lua", ".r", ".go", ".rs", ".awk", ".tcl", ".applescript"),
)
_SHEBANG = b"#!"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_CONTINUED = re.compile(r"\\\n|(?<=[ \t])[`^]\n")
# A command goes on in the next line after `\`, in PowerShell after a backtick, in batch files after `^`.
_LINE_END = re.compile("\n")


_PRINTABLE = bytes([*b"\t\n\f\r\x1b", *range(0x20, 0x7F)])
_ODD_SHARE = 10
# A file with fewer other bytes than one in ten is text with faults.


@dataclass(frozen=True)
class AuditedFile:
    """One file of a skill; `path` is relative to the skill's folder, with `/`.

    `fault` says why the bytes could not be read; then `raw` is empty. `link` is the target of a symbolic link, which is
    not followed.
    """

    path: str
    raw: bytes = field(default=b"", repr=False)
    fault: str = ""
    link: str | None = None

    @cached_property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @cached_property
    def suffix(self) -> str:
        """The lower-case ending of the name with its dot, empty if there is none."""
        stem, dot, ending = self.name.rpartition(".")
        return f".{ending.lower()}" if dot and stem else ""

    @cached_property
    def is_markdown(self) -> bool:
        """Whether the name is that of a Markdown file."""
        return self.suffix in _MARKDOWN

    @cached_property
    def is_script(self) -> bool:
        """Whether the file is a program in source form, by its ending or its first line."""
        return self.suffix in _SCRIPTS or self.raw.startswith(_SHEBANG)

    @cached_property
    def is_eval(self) -> bool:
        """Whether the file belongs to the tests of the skill: no model that performs the skill sees it."""
        return self.path.partition("/")[0].casefold() == EVALS and "/" in self.path

    @cached_property
    def text(self) -> SearchedText | None:
        """The decoded text, None for a binary file; a byte order mark stays its first character.

        Scripts, Markdown and files that consist mostly of ASCII are always decoded, with replacement characters: one
        invalid byte or NUL must not hide the rest from the rules.
        """
        text = self._decoded()
        return None if text is None else SearchedText(text)

    def _decoded(self) -> str | None:
        if self.fault:
            return None
        if self.raw.startswith(_UTF16):
            return self.raw.decode("utf-16", "replace")
        if self.is_script or self.is_markdown:
            return self.raw.decode("utf-8", "replace")
        try:
            text = None if b"\0" in self.raw else self.raw.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        return self.raw.decode("utf-8", "replace") if text is None and _is_mostly_ascii(self.raw) else text

    @cached_property
    def _readable(self) -> str:
        text: str = self.text or ""
        return without_json(text) if self.suffix == ".ipynb" else text

    @cached_property
    def prose(self) -> SearchedText:
        """The text as a reader takes it, in one alphabet and without markup, with the same positions."""
        return self._searched(plain_prose(self._readable))

    @cached_property
    def commands(self) -> SearchedText:
        """The text with each command on one line, with the same positions: continued lines are joined."""
        text = self._readable
        if "\\\n" in text or "`\n" in text or "^\n" in text:
            text = _CONTINUED.sub("  ", text)
        return self._searched(text.replace("\r", " "))

    def _searched(self, view: str) -> SearchedText:
        """Return a view of the text for searches; a view that is the text itself is read for words once."""
        return self.text if self.text is not None and view == self.text else SearchedText(view)

    @cached_property
    def unfenced(self) -> str:
        """The text of a Markdown file with blanks for fenced code, with the same positions."""
        return without_fences(self.text or "")

    @cached_property
    def code(self) -> tuple[CodeUnit, ...]:
        """The code in the file: a script as a whole, and the blocks and commands of Markdown."""
        return code_units(self)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines of the text, without their ends."""
        return tuple((self.text or "").split("\n"))

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text or ""))]

    def place_of(self, start: int) -> tuple[int, int]:
        """Return the line and the column of a position in the text, both from 1."""
        line = bisect_right(self._starts, start)
        return line, start - self._starts[line - 1] + 1

    def start_of(self, line: int) -> int:
        """Return the position in the text where a line begins; lines count from 1."""
        return self._starts[min(max(line, 1), len(self._starts)) - 1]

    def line_at(self, start: int) -> str:
        """Return the line of the text that has a position."""
        return self.lines[self.place_of(start)[0] - 1]


@dataclass(frozen=True)
class SkillUnderAudit:
    """Every file of one skill by its path, in order of the paths; `name` is that of its folder.

    `main_path` is the path of its SKILL.md, or of the single file that is the skill. `siblings` are the names of the
    skills that lie beside it.
    """

    name: str
    files: Mapping[str, AuditedFile]
    main_path: str = MAIN_FILE
    siblings: frozenset[str] = frozenset()

    @classmethod
    def of(cls, name: str, files: Iterable[AuditedFile], main_path: str | None = None) -> SkillUnderAudit:
        """Return the skill with these files; without `main_path`, its main file is SKILL.md or skill.md."""
        by_path = {file.path: file for file in sorted(files, key=lambda file: file.path)}
        names = (MAIN_FILE, MAIN_FILE_LOWERCASE)
        main = main_path or next((each for each in names if each in by_path), MAIN_FILE)
        return cls(name, MappingProxyType(by_path), main)

    @property
    def is_folder(self) -> bool:
        """Whether the skill is a folder with a SKILL.md, and not a single file."""
        return self.main_path in {MAIN_FILE, MAIN_FILE_LOWERCASE}

    @cached_property
    def main(self) -> AuditedFile | None:
        """The SKILL.md, None if the skill has none."""
        return self.files.get(self.main_path)

    @cached_property
    def texts(self) -> tuple[AuditedFile, ...]:
        """The files with text."""
        return tuple(file for file in self.files.values() if file.text is not None)

    @property
    def documents(self) -> Iterator[AuditedFile]:
        """The files with text that a model reads as text: all but scripts."""
        return (file for file in self.texts if not file.is_script or self.is_main(file))

    @property
    def code(self) -> Iterator[tuple[AuditedFile, CodeUnit]]:
        """The code in all files, each piece with its file."""
        return ((file, unit) for file in self.texts for unit in file.code)

    @cached_property
    def instructions(self) -> Instructions:
        """The parsed SKILL.md; an unreadable one has a fault and no content."""
        raw = self.main.raw if self.main is not None else b""
        return parse_instructions(raw, printable(self.name), self.main_path, Strictness.LENIENT, in_folder=False)

    @property
    def frontmatter(self) -> Frontmatter:
        """The typed frontmatter of the SKILL.md."""
        return self.instructions.frontmatter

    @property
    def names(self) -> set[str]:
        """The names that the skill has: that of its folder, and that in its frontmatter."""
        return {self.name, self.frontmatter.name or self.name}

    @cached_property
    def body_start(self) -> int:
        """The position of the body in the text of the SKILL.md; 0 if the file cannot be parsed."""
        return self.instructions.body_offset if self.instructions.fault is None else 0

    @cached_property
    def body(self) -> str:
        """The Markdown after the frontmatter; the whole text if the file cannot be parsed."""
        if self.instructions.fault is None:
            return self.instructions.body
        return (self.main.text or "") if self.main is not None else ""

    def once(self, derive: Callable[[SkillUnderAudit], T]) -> T:
        """Return what a function derives from the skill, which is derived only once."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        derived: T = self._derived[derive]
        return derived

    @cached_property
    def _derived(self) -> dict[Callable[[SkillUnderAudit], Any], Any]:
        return {}

    def is_main(self, file: AuditedFile) -> bool:
        """Tell whether a file is the SKILL.md."""
        return file.path == self.main_path


def _is_mostly_ascii(raw: bytes) -> bool:
    return len(raw.translate(None, _PRINTABLE)) * _ODD_SHARE < len(raw)


MAX_FILES = 4096
MAX_FOLDERS = 4096
MAX_DEPTH = 32
MAX_BYTES = 128 * 1024 * 1024
"""Bytes of all files of one skill that are read; the Skills extension allows 16 MiB."""

_REPOSITORIES = frozenset({".git", ".hg", ".svn"})
# Databases of version control do not belong to a skill, and are huge.


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
                found = [_file_at(root, posixpath.join(folder, entry.name), entry) for entry in entries]
        except OSError as error:
            yield AuditedFile(folder or ".", fault=f"the folder cannot be listed: {system_message(error)}")
            continue
        for path, file in sorted(found, key=itemgetter(0)):
            if file is not None:
                yield file
            elif posixpath.basename(path) not in _REPOSITORIES:
                waiting.append(path)


def _file_at(root: Path, path: str, entry: os.DirEntry[str]) -> tuple[str, AuditedFile | None]:
    """Return the path of an entry, and its file without the bytes; None in place of a file for a folder."""
    try:
        if entry.is_symlink() or getattr(entry, "is_junction", bool)():
            target = printable(os.readlink(root / path))  # noqa: PTH115 - the target stays text
            return path, AuditedFile(path, fault="a symbolic link, which is not followed", link=target)
        if entry.is_dir(follow_symlinks=False):
            return path, None
        return path, AuditedFile(path, fault="" if entry.is_file(follow_symlinks=False) else "not a regular file")
    except OSError as error:
        return path, AuditedFile(path, fault=system_message(error))


def _read(reader: Reader, root: Path, file: AuditedFile, left: int) -> AuditedFile:
    try:
        raw, _ = reader.read(Location(root, file.path))
    except FileRefusedError as error:
        return replace(file, fault=error.message)
    if len(raw) > left:
        return replace(file, fault=f"the skill has more than {MAX_BYTES >> 20} MiB, and the audit reads no more")
    return replace(file, raw=raw)
