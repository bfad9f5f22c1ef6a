"""Cut a SKILL.md into frontmatter and body: bytes in, a `Document` out, never an exception.

Rules: the agentskills.io specification (YAML between `---` fences, then Markdown) read as SEP-2640 hosts read
it, so that what we serve is what they parse: YAML 1.2 core, and the text between the fences ends before the
line end of the closing fence. Knows nothing of what the fields mean; `frontmatter` does.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity, capped
from skills_core.yaml12 import YamlError, YamlFault, YamlMapping, YamlNoteKind, load_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.yaml12 import JsonValue

__all__ = ["Document", "has_frontmatter", "parse_document"]

_BOM = b"\xef\xbb\xbf"
_FENCE = re.compile(r"---[ \t]*\r?$", re.MULTILINE)
_GLUED_FENCE = re.compile(r"^---(?=\S)", re.MULTILINE)
_TOP_LEVEL_KEY = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*):(?:[ \t]+(\S.*))?$")

_MAX_MENDED = 200
# A frontmatter of more entries is not mended: each is read by itself.

_LIMITS = frozenset({YamlFault.TOO_LARGE, YamlFault.TOO_DEEP, YamlFault.TOO_MANY_NODES})


@dataclass(frozen=True, slots=True)
class Document:
    """A SKILL.md taken apart.

    `fields` is the frontmatter as JSON values, `lines` the line in the file of each top-level field. `fault`
    says why there is no usable frontmatter; then `fields` is empty. `verbatim` is false where the YAML only
    loaded after a repair, says something twice, or holds what JSON cannot, so that others would read otherwise.
    """

    fields: Mapping[str, JsonValue]
    lines: Mapping[str, int]
    body: str
    diagnostics: tuple[Diagnostic, ...]
    fault: Reason | None = None
    verbatim: bool = True


@dataclass(slots=True)
class _Findings:
    """Collects what is wrong with one file, in reading order."""

    path: str
    found: list[Diagnostic] = field(default_factory=list)

    def add(self, severity: Severity, code: Reason, message: str, line: int | None = None) -> None:
        self.found.append(Diagnostic(severity, code, message, self.path, line))

    def failed(self, code: Reason, message: str, line: int | None = None, body: str = "") -> Document:
        self.add(Severity.ERROR, code, message, line)
        return Document({}, {}, body, tuple(self.found), fault=code, verbatim=False)


def has_frontmatter(raw: bytes) -> bool:
    """Tell whether the bytes of a file begin with a fence."""
    return raw.removeprefix(_BOM).partition(b"\n")[0].rstrip() == b"---"


def parse_document(raw: bytes, path: str) -> Document:
    """Parse the bytes of a SKILL.md; `path` is how diagnostics name the file.

    A byte order mark and CRLF line ends are accepted. Everything that is wrong is in the result's
    `diagnostics`; nothing is raised on any content.
    """
    findings = _Findings(path)
    raw = raw.removeprefix(_BOM)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return findings.failed(
            Reason.NOT_UTF8, f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8", line
        )
    if not text.strip():
        return findings.failed(Reason.EMPTY, "the file is empty; it needs frontmatter with name and description")
    opening = _FENCE.match(text)
    if opening is None:
        message = "the first line must be '---', followed by name and description and a closing '---'"
        return findings.failed(Reason.MISSING_FRONTMATTER, message, 1, body=text)
    closing = _closing(text, opening.end())
    glued = _glued(text, opening, closing)
    if glued is not None:
        message = "the '---' that ends the frontmatter was found with text after it; let it stand alone on its line"
        findings.add(Severity.WARNING, Reason.YAML_REPAIRED, message, text.count("\n", 0, glued.start()) + 1)
        closing = glued
    if closing is None:
        message = "no closing '---' line ends the frontmatter that begins here"
        return findings.failed(Reason.UNCLOSED_FRONTMATTER, message, 1)
    yaml, body = _between(text, opening, closing), text[closing.end() :].strip()
    return _parse_frontmatter(yaml, body, findings, verbatim=glued is None)


def _closing(text: str, start: int) -> re.Match[str] | None:
    closing = _FENCE.search(text, start)
    while closing is not None and text[closing.start() - 1] != "\n":
        closing = _FENCE.search(text, closing.end())
    return closing


def _glued(text: str, opening: re.Match[str], closing: re.Match[str] | None) -> re.Match[str] | None:
    """Return the line that was meant as the closing fence but goes on, where only it leads to YAML.

    Without it a rule in the body would be the fence, and the text before the rule a part of some field.
    """
    glued = _GLUED_FENCE.search(text, opening.end(), closing.start() if closing else len(text))
    if glued is None or not _loads([_between(text, opening, glued)]):
        return None
    return None if closing and _loads([_between(text, opening, closing)]) else glued


def _between(text: str, opening: re.Match[str], closing: re.Match[str]) -> str:
    """Return the text between the fences, without the line ends that belong to the fences."""
    start = opening.end() + 1
    end = closing.start() - 1
    if text[end - 1 : end] == "\r":
        end -= 1
    return text[start : max(start, end)]


def _parse_frontmatter(yaml: str, body: str, findings: _Findings, *, verbatim: bool) -> Document:
    try:
        mapping = load_mapping(yaml)
    except YamlError as error:
        if error.fault in _LIMITS:
            return findings.failed(Reason.YAML_LIMIT, error.message, _file_line(error.line), body)
        repaired = _repair(yaml) if error.fault is YamlFault.SYNTAX else None
        if repaired is None:
            return findings.failed(Reason.INVALID_YAML, error.message, _file_line(error.line), body)
        mapping, key, line = repaired
        message = f"the value of {key!r} is no valid YAML and was read as it was meant; put it in quotes, on one line"
        findings.add(Severity.WARNING, Reason.YAML_REPAIRED, message, line)
        return _finished(mapping, body, findings, verbatim=False)
    return _finished(mapping, body, findings, verbatim=verbatim)


def _finished(mapping: YamlMapping, body: str, findings: _Findings, *, verbatim: bool) -> Document:
    for note in mapping.notes:
        code = Reason.DUPLICATE_KEY if note.kind is YamlNoteKind.DUPLICATE_KEY else Reason.NOT_JSON
        findings.add(Severity.WARNING, code, note.message, _file_line(note.line))
        # All but keys: JavaScript writes those as we do.
        verbatim = verbatim and note.kind is YamlNoteKind.NON_STRING_KEY
    lines = {key: line + 1 for key, line in mapping.lines.items()}
    return Document(mapping.value, lines, body, capped(findings.found), verbatim=verbatim)


def _file_line(line: int | None) -> int | None:
    """Turn a line of the YAML text into a line of the file: the opening fence is line 1."""
    return None if line is None else line + 1


def _repair(yaml: str) -> tuple[YamlMapping, str, int] | None:
    """Mend the entries that are no YAML by themselves, and load again.

    Covers what public skills get wrong most: `description: Use when: …`, values that start with `|`, `@`, a
    backtick or a bracket that never closes, and quoted text that goes on without being indented. Returns the
    mapping with the first mended key and its line in the file, or None where that does not help.
    """
    blocks = _blocks(yaml.split("\n"))
    if len(blocks) > _MAX_MENDED:
        return None
    mended: list[str] = []
    first: tuple[str, int] | None = None
    number = 1
    for block in blocks:
        head = _TOP_LEVEL_KEY.match(block[0].rstrip("\r"))
        if head is None or head[2] is None or _loads(block):
            mended += block
        else:
            mended += _mended(head[1], head[2], block)
            first = first or (head[1], number + 1)
        number += len(block)
    if first is None:
        return None
    try:
        return load_mapping("\n".join(mended)), *first
    except YamlError:
        return None


def _mended(key: str, value: str, block: list[str]) -> list[str]:
    """Return an entry as YAML, in as many lines: its further lines indented, else all of it as one string."""
    indented = [block[0], *(f"  {line}" if line.strip() else line for line in block[1:])]
    if _loads(indented):
        return indented
    text = " ".join([value.strip(), *(line.strip() for line in block[1:] if line.strip())])
    return [f"{key}: {json.dumps(text, ensure_ascii=False)}", *("" for _ in block[1:])]


def _blocks(lines: list[str]) -> list[list[str]]:
    """Group lines into top-level entries: a line that starts a key, with what is indented below it."""
    blocks: list[list[str]] = []
    for line in lines:
        if blocks and not _TOP_LEVEL_KEY.match(line.rstrip("\r")):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    return blocks


def _loads(lines: list[str]) -> bool:
    try:
        load_mapping("\n".join(lines))
    except YamlError:
        return False
    return True
