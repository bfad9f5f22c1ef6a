"""Split a SKILL.md into frontmatter and body: bytes in, a `Document` out, never an exception.

Rules: the agentskills.io specification (YAML between `---` fences, then Markdown) as SEP-2640 hosts read it, so that
they parse what we serve: YAML 1.2 core, and the text between the fences without the line end before the closing fence.
`frontmatter` interprets the fields.

Frontmatter that is not valid YAML is repaired entry by entry, where the intent is clear. This covers the most frequent
faults of public skills: `description: Use when: …`, values that start with `|`, `@`, a backtick or an unclosed bracket,
and quoted text whose further lines are not indented. `read_layout` locates the fields in the text, so that one can be
edited without changing the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from yaml import AliasEvent, CollectionEndEvent, CollectionStartEvent, MappingStartEvent, ScalarEvent

from skills_core.diagnostics import Diagnostic, Reason, Severity, capped
from skills_core.format.yaml12 import YamlError, YamlFault, YamlMapping, YamlNoteKind, load_mapping, visit_events
from skills_core.values import value_type

if TYPE_CHECKING:
    from yaml import Event, Mark
    from yaml._yaml import Mark as LibyamlMark

    from skills_core.format.yaml12 import JsonValue


BOM = b"\xef\xbb\xbf"
_FENCE = re.compile(r"---[ \t]*\r?$", re.MULTILINE)
_STAR_FENCE = re.compile(r"\*\*\*[ \t]*\r?$", re.MULTILINE)
_GLUED_FENCE = re.compile(r"^---(?=\S)", re.MULTILINE)

_LOSSES = frozenset({YamlNoteKind.DUPLICATE_KEY, YamlNoteKind.NON_FINITE_NUMBER})
_LIMITS = frozenset({YamlFault.TOO_LARGE, YamlFault.TOO_DEEP, YamlFault.TOO_MANY_NODES})


@value_type(frozen=True, slots=True)
class Document:
    """A SKILL.md split into its parts.

    `fields` is the frontmatter as JSON values, `lines` the line in the file of each top-level field. `fault` says why
    there is no usable frontmatter; then `fields` is empty. `verbatim` is false if the YAML was repaired, has duplicate
    keys or holds values that JSON cannot represent, so that other parsers may read it differently. `lossy` maps each
    top-level field that has lost a part of its text to the cause: a repeated key, or a number that JSON does not have.
    `yaml` is the text of the frontmatter, empty if it was repaired; then `broken` is the text before the repair.
    `body_offset` is the position of the body in the decoded file, in characters.
    """

    fields: Mapping[str, JsonValue]
    lines: Mapping[str, int]
    body: str
    diagnostics: tuple[Diagnostic, ...]
    fault: Reason | None = None
    verbatim: bool = True
    yaml: str = ""
    lossy: Mapping[str, str] = field(default_factory=dict)
    broken: str = ""
    body_offset: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether `fields` has everything that the text of the frontmatter says."""
        return not self.lossy and not self.broken


class Fences(NamedTuple):
    """The positions of the frontmatter in a SKILL.md: from `start` to `end`, without the line ends of the fences.

    `body` is the end of the closing fence; `glued` tells that text follows on the line of the closing fence, `stars`
    that the fences are `***` lines.
    """

    start: int
    end: int
    body: int
    glued: bool = False
    stars: bool = False


@dataclass(slots=True)
class _Findings:
    """Collects the diagnostics of one file."""

    path: str
    found: list[Diagnostic] = field(default_factory=list)

    def add(self, severity: Severity, code: Reason, message: str, line: int | None = None) -> None:
        self.found.append(Diagnostic(severity, code, message, self.path, line))

    def failed(self, code: Reason, message: str, line: int | None = None, body: str = "") -> Document:
        self.add(Severity.ERROR, code, message, line)
        return Document({}, {}, body, tuple(self.found), fault=code, verbatim=False)


def has_frontmatter(raw: bytes) -> bool:
    """Tell whether the bytes of a file begin with a fence; `***` counts only if it encloses name or description."""
    raw = raw.removeprefix(BOM)
    first = raw.partition(b"\n")[0].rstrip()
    if first == b"***":
        return isinstance(find_fences(raw.decode("utf-8", "replace")), Fences)
    return first == b"---"


def parse_document(raw: bytes, path: str) -> Document:
    """Parse the bytes of a SKILL.md; diagnostics name the file as `path`.

    A byte order mark and CRLF line ends are accepted. All faults are in the result's `diagnostics`; no content raises.
    """
    findings = _Findings(path)
    marked = raw.startswith(BOM)
    raw = raw.removeprefix(BOM)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return findings.failed(Reason.NOT_UTF8, f"byte 0x{raw[error.start]:02x} is not UTF-8", line)
    if not text.strip():
        return findings.failed(Reason.EMPTY, "the file is empty")
    fences = find_fences(text)
    if fences is Reason.MISSING_FRONTMATTER:
        return findings.failed(fences, "the first line is not '---', so there is no frontmatter", 1, body=text)
    if not isinstance(fences, Fences):
        return findings.failed(fences, "the frontmatter that begins here has no closing '---' line", 1)
    if fences.glued:
        message = "text follows the closing '---' on its line; the frontmatter was read as if it ended there"
        findings.add(Severity.WARNING, Reason.YAML_REPAIRED, message, text.count("\n", 0, fences.body) + 1)
    if fences.stars:
        message = "the frontmatter stands between '***' lines; most hosts find it only between '---' lines"
        findings.add(Severity.WARNING, Reason.STAR_FENCES, message, 1)
    yaml, rest = text[fences.start : fences.end], text[fences.body :]
    verbatim = not fences.glued and not fences.stars
    document = _parse_frontmatter(yaml, rest.strip(), findings, verbatim=verbatim)
    return replace(document, body_offset=marked + len(text) - len(rest.lstrip()))


def find_fences(text: str) -> Fences | Reason:
    """Return the positions of the frontmatter of a SKILL.md, or MISSING_FRONTMATTER or UNCLOSED_FRONTMATTER."""
    opening = _FENCE.match(text)
    if opening is None:
        return _star_fences(text) or Reason.MISSING_FRONTMATTER
    closing = _closing(text, opening.end())
    glued = _glued(text, opening, closing)
    if glued is not None:
        return _fences(text, opening, glued, glued=True)
    return Reason.UNCLOSED_FRONTMATTER if closing is None else _fences(text, opening, closing)


def _star_fences(text: str) -> Fences | None:
    """Return the positions of frontmatter between `***` lines, as Agenvoy's documentation writes it.

    In Markdown such a line is a thematic break, so what follows must have a name or a description.
    """
    opening = _STAR_FENCE.match(text)
    closing = _closing(text, opening.end(), _STAR_FENCE) if opening else None
    if opening is None or closing is None:
        return None
    fences = _fences(text, opening, closing)
    yaml = text[fences.start : fences.end]
    try:
        mapping = load_mapping(yaml)
    except YamlError as error:
        repaired = repair(yaml) if error.fault is YamlFault.SYNTAX else None
        if repaired is None:
            return None
        mapping = repaired.mapping
    is_frontmatter = "name" in mapping.value or "description" in mapping.value
    return fences._replace(stars=True) if is_frontmatter else None


def _closing(text: str, start: int, fence: re.Pattern[str] = _FENCE) -> re.Match[str] | None:
    closing = fence.search(text, start)
    while closing is not None and text[closing.start() - 1] != "\n":
        closing = fence.search(text, closing.end())
    return closing


def _glued(text: str, opening: re.Match[str], closing: re.Match[str] | None) -> re.Match[str] | None:
    """Return a closing fence that text follows on its line, if the frontmatter is valid YAML only with this fence.

    Otherwise a thematic break in the body would count as the fence, and the text before it as part of a field.
    """
    glued = _GLUED_FENCE.search(text, opening.end(), closing.start() if closing else len(text))
    if glued is None or not _loads(text, _fences(text, opening, glued)):
        return None
    return None if closing and _loads(text, _fences(text, opening, closing)) else glued


def _fences(text: str, opening: re.Match[str], closing: re.Match[str], *, glued: bool = False) -> Fences:
    """Return the positions between two fences, without the line ends of the fences."""
    start = opening.end() + 1
    end = closing.start() - 1
    if text[end - 1 : end] == "\r":
        end -= 1
    return Fences(start, max(start, end), closing.end(), glued)


def _loads(text: str, fences: Fences) -> bool:
    try:
        load_mapping(text[fences.start : fences.end])
    except YamlError:
        return False
    return True


def _parse_frontmatter(yaml: str, body: str, findings: _Findings, *, verbatim: bool) -> Document:
    try:
        mapping = load_mapping(yaml)
    except YamlError as error:
        if error.fault in _LIMITS:
            return findings.failed(Reason.YAML_LIMIT, error.message, _file_line(error.line), body)
        result = repair(yaml) if error.fault is YamlFault.SYNTAX else None
        if result is None:
            return findings.failed(Reason.INVALID_YAML, error.message, _file_line(error.line), body)
        key, _ = result.entries[0]
        message = f"the value of {key!r} is not valid YAML and was repaired"
        findings.add(Severity.WARNING, Reason.YAML_REPAIRED, message, _file_line(result.line))
        return replace(_finished(result.mapping, body, findings, verbatim=False), broken=yaml)
    return _finished(mapping, body, findings, verbatim=verbatim, yaml=yaml)


def _finished(mapping: YamlMapping, body: str, findings: _Findings, *, verbatim: bool, yaml: str = "") -> Document:
    for note in mapping.notes:
        code = Reason.DUPLICATE_KEY if note.kind is YamlNoteKind.DUPLICATE_KEY else Reason.NOT_JSON
        findings.add(Severity.WARNING, code, note.message, _file_line(note.line))
        # Keys that are not strings are the exception: JavaScript converts them as we do.
        verbatim = verbatim and note.kind is YamlNoteKind.NON_STRING_KEY
    lines = {key: line + 1 for key, line in mapping.lines.items()}
    lossy = {note.field: note.message.partition(";")[0] for note in reversed(mapping.notes) if note.kind in _LOSSES}
    return Document(mapping.value, lines, body, capped(findings.found), verbatim=verbatim, yaml=yaml, lossy=lossy)


def _file_line(line: int | None) -> int | None:
    """Return the line in the file for a line of the YAML text; the opening fence is line 1."""
    return None if line is None else line + 1


_TOP_LEVEL_KEY = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*):(?:[ \t]+(\S.*))?$")

_MAX_ENTRIES = 200
# Frontmatter with more entries is not repaired, because each entry is parsed separately.


@dataclass(frozen=True, slots=True)
class Repair:
    """Repaired frontmatter: its value, with lines of the original, and its YAML `text`.

    `entries` are the repaired entries, each with its line in `text`, from 1; `line` is that of the first one in the
    original. `new_lines` maps each line of the original to its line in `text`.
    """

    mapping: YamlMapping
    text: str
    entries: tuple[tuple[str, int], ...]
    line: int
    new_lines: tuple[int, ...]


def repair(yaml: str) -> Repair | None:
    """Repair the entries that are not valid YAML, and load the result; return None if that fails."""
    blocks = _blocks(yaml.split("\n"))
    if len(blocks) > _MAX_ENTRIES:
        return None
    lines: list[str] = []
    original: list[str] = []
    entries: list[tuple[str, int]] = []
    new_lines: list[int] = []
    first = 0
    for block in blocks:
        head = _TOP_LEVEL_KEY.match(block[0].rstrip("\r"))
        written = block
        if head is not None and head[2] is not None and not _lines_load(block):
            written = _repaired_entry(head[1], head[2], block)
            entries.append((head[1], len(lines) + 1))
            first = first or len(original) + 1
        new_lines += [len(lines) + min(number, len(written)) for number in range(1, len(block) + 1)]
        lines += written
        # Padded, so that later lines keep their numbers.
        original += [*written, *("" for _ in block[len(written) :])]
    if not entries:
        return None
    try:
        return Repair(load_mapping("\n".join(original)), "\n".join(lines), tuple(entries), first, tuple(new_lines))
    except YamlError:
        return None


def _repaired_entry(key: str, value: str, block: list[str]) -> list[str]:
    """Return an entry as YAML: with its further lines indented, or else as one quoted string.

    Blank lines and comments at its end do not belong to the value and are kept as they are.
    """
    end = len(block)
    while end > 1 and (not block[end - 1].strip() or block[end - 1].startswith("#")):
        end -= 1
    for own, after in ((block[:end], block[end:]), (block, [])):
        indented = [own[0], *(f"  {line}" if line.strip() else line for line in own[1:]), *after]
        if _lines_load(indented):
            return indented
    text = " ".join([value.strip(), *(line.strip() for line in block[1:end] if line.strip())])
    line_end = "\r" if block[end - 1].endswith("\r") else ""
    return [f"{key}: {json.dumps(text, ensure_ascii=False)}{line_end}", *block[end:]]


def _blocks(lines: list[str]) -> list[list[str]]:
    """Group lines into top-level entries: a line with a key, and the lines up to the next one."""
    blocks: list[list[str]] = []
    for line in lines:
        if blocks and not _TOP_LEVEL_KEY.match(line.rstrip("\r")):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    return blocks


def _lines_load(lines: list[str]) -> bool:
    try:
        # A carriage return is valid only before a line feed.
        load_mapping("\n".join([*lines, ""]))
    except YamlError:
        return False
    return True


class Span(NamedTuple):
    """A part of a text, from `start` to before `end`."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return the part of `text`."""
        return text[self.start : self.end]

    def replaced(self, text: str, new: str) -> str:
        """Return `text` with `new` in place of the part."""
        return text[: self.start] + new + text[self.end :]


@dataclass(frozen=True, slots=True)
class Place:
    """The spans of a field's key and value, each None unless it is a scalar without anchor and tag.

    `plain` tells that the value is neither quoted nor a block.
    """

    key: Span | None
    value: Span | None
    plain: bool


def read_layout(yaml: str) -> dict[str, Place]:
    """Return the place of each field by its path: `name`, `metadata.jdai.skillKey`, `tools[0].name`.

    `yaml` is a text that `load_mapping` reads. Of a repeated key, the last place counts.
    """
    reader = _LayoutReader(yaml)
    visit_events(yaml, reader.take)
    return reader.places


def read_lines(yaml: str) -> dict[str, int]:
    """Return the first line, from 1, of each field and list item, by path as in `read_layout`.

    Fields in what an alias repeats have no line.
    """
    reader = _LayoutReader(yaml)
    visit_events(yaml, reader.take)
    return reader.lines


@dataclass(slots=True)
class _OpenField:
    """An unclosed collection; in a list, `count` numbers the items and `name` is unused."""

    path: str
    mapping: bool
    name: str | None = None
    key: Span | None = None
    line: int = 0
    count: int = 0


@dataclass(slots=True)
class _LayoutReader:
    text: str
    places: dict[str, Place] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    stack: list[_OpenField] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = [0]
        for line in self.text.split("\n"):
            self.rows.append(self.rows[-1] + len(line) + 1)

    def take(self, event: Event) -> None:
        if isinstance(event, CollectionEndEvent):
            self.stack.pop()
        elif isinstance(event, ScalarEvent | AliasEvent | CollectionStartEvent):
            self._node(event)

    def _node(self, event: ScalarEvent | AliasEvent | CollectionStartEvent) -> None:
        top = self.stack[-1] if self.stack else None
        scalar = event if isinstance(event, ScalarEvent) and event.anchor is None and event.tag is None else None
        span = self._span(event) if scalar else None
        if top is not None and top.mapping and top.name is None:
            top.name, top.key, top.line = str(getattr(event, "value", "")), span, _line(event)
            return
        path = self._path(top)
        self.lines[path] = top.line if top is not None and top.mapping else _line(event)
        if top is not None and top.mapping:
            self.places[path] = Place(top.key, span, plain=scalar is not None and not scalar.style)
            top.name = None
        if isinstance(event, CollectionStartEvent):
            self.stack.append(_OpenField(path, isinstance(event, MappingStartEvent)))

    def _path(self, top: _OpenField | None) -> str:
        if top is None:
            return ""
        if top.mapping:
            return f"{top.path}.{top.name}" if top.path else str(top.name)
        top.count += 1
        return f"{top.path}[{top.count - 1}]"

    def _span(self, event: Event) -> Span:
        return Span(self._position(event.start_mark), self._position(event.end_mark))

    def _position(self, mark: Mark | LibyamlMark | None) -> int:
        return min(self.rows[mark.line] + mark.column, len(self.text)) if mark else 0


def _line(event: Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1
