"""Read a workspace that others may write: bounded, and never outside of it by a link.

A value of the wrong type in a JSON file counts as missing. Of a run's outputs, text and images are shown up to a limit,
of all other files name, size and digest. Long transcripts lose their middle.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from server.capabilities.evals.report.model import FileKind, ShownFile, ShownTranscript
from skills_core.diagnostics import printable, without_lone_surrogates
from skills_core.disk.files import MAX_FILE_SIZE, Location, Reader
from skills_core.errors import Fault, FileRefusedError, fault_of, system_message
from skills_core.evals.agents.kind import record

_LONGEST = 100_000
# Characters of one text that a report keeps.


def first(values: Mapping[str, Any], *names: str) -> Any:  # noqa: ANN401 - JSON
    """Return the first of these fields that is there and not null."""
    return next((values[name] for name in names if values.get(name) is not None), None)


def text(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return a text, or a number as text; empty for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # A whole number of thousands of digits cannot be converted.
        return str(value) if isinstance(value, float) or abs(value) < 10**30 else ""
    if not isinstance(value, str):
        return ""
    cut = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}… ({len(value) - _LONGEST:,} more characters)"
    return without_lone_surrogates(cut)


def texts(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON
    """Return the texts of a JSON array, or a single text."""
    values = value if isinstance(value, list) else [value]
    return tuple(filter(None, map(text, values)))


def number(value: Any) -> float | None:  # noqa: ANN401 - JSON
    """Return a finite number; the delta of skill-creator is a text such as "+0.50"."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (OverflowError, ValueError):
        return None
    return found if math.isfinite(found) else None


def count(value: Any) -> int | None:  # noqa: ANN401 - JSON
    """Return a whole number of at least 0."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 10**12 else None


def truth(value: Any) -> bool | None:  # noqa: ANN401 - JSON
    """Return a boolean, None for anything else."""
    return value if isinstance(value, bool) else None


_MAX_ENTRIES = 5000
# Entries of one folder that are looked at.

_MAX_PROBLEMS = 50


class FolderEntry(NamedTuple):
    """A file, folder or something else in a folder; `refused` says why it is not read."""

    name: str
    is_folder: bool
    size: int | None
    refused: str


class WorkspaceFolder:
    """The folder of a workspace; collects what could not be used in `problems`."""

    def __init__(self, root: Path, reader: Reader) -> None:
        self._root = root
        self._reader = reader
        self.problems: list[str] = []

    @property
    def name(self) -> str:
        """The folder's own name."""
        return printable(self._root.resolve().name)

    def add_problem(self, relative: str, message: str) -> None:
        """Note that a file could not be used."""
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(f"{printable(relative)}: {message}")

    def entries(self, relative: str = "") -> list[FolderEntry]:
        """Return what lies in a folder, numbers in names in their order; empty if there is none."""
        try:
            with self._reader.entries(Location(self._root, relative)) as found:
                listed = [_folder_entry(each) for each, _ in zip(found, range(_MAX_ENTRIES + 1), strict=False)]
        except OSError as error:
            if fault_of(error) is not Fault.ABSENT:
                self.add_problem(relative, system_message(error))
            return []
        if len(listed) > _MAX_ENTRIES:
            self.add_problem(relative, f"only {_MAX_ENTRIES:,} entries of this folder are shown")
        return sorted(listed[:_MAX_ENTRIES], key=lambda entry: natural(entry.name))

    def folders(self, relative: str = "") -> list[str]:
        """Return the names of the folders in a folder."""
        return [entry.name for entry in self.entries(relative) if entry.is_folder and not entry.name.startswith(".")]

    def read(self, relative: str, limit: int = MAX_FILE_SIZE) -> bytes | None:
        """Return the bytes of a file; None if there is none, or if it cannot be read, which is a problem."""
        try:
            return self._reader.read(Location(self._root, relative), limit)[0]
        except FileRefusedError as error:
            if error.fault is not Fault.ABSENT:
                self.add_problem(relative, error.message)
            return None

    def json(self, relative: str) -> Any:  # noqa: ANN401 - JSON
        """Return the value of a JSON file; None if there is none, or if it is not JSON, which is a problem."""
        raw = self.read(relative)
        if raw is None:
            return None
        try:
            return json.loads(raw.decode("utf-8-sig", "replace"))
        except ValueError as error:
            place = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
            # A file that is just being written is complete at the next look.
            self.add_problem(relative, f"not JSON ({place}); write it again, or delete it")
        except RecursionError:
            self.add_problem(relative, "not usable: its values are nested too deep")
        return None


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts `run-10` after `run-9`."""
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple((int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in parts if part)


def _folder_entry(entry: Any) -> FolderEntry:  # noqa: ANN401 - an `os.DirEntry`, whose metadata may be gone
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return FolderEntry(entry.name, is_folder=False, size=None, refused=system_message(error))
    if stat.S_ISDIR(status.st_mode):
        return FolderEntry(entry.name, is_folder=True, size=None, refused="")
    if stat.S_ISREG(status.st_mode):
        return FolderEntry(entry.name, is_folder=False, size=status.st_size, refused="")
    link = stat.S_ISLNK(status.st_mode)
    reason = "a link, which is not followed" if link else "not a regular file, so it is not opened"
    return FolderEntry(entry.name, is_folder=False, size=None, refused=reason)


MAX_TEXT: Final = 64 * 1024
"""Characters of a text file that the report shows."""

MAX_IMAGE: Final = 2 * 1024 * 1024
"""Largest image in bytes that the report contains."""

MAX_FILES: Final = 100
"""Files of one run that the report lists."""

ANSWER_FILE: Final = "answer.txt"

_MAX_DEPTH = 8

_LEAST_TEXT = 1000
# Characters of a text file that are worth to be shown.

_LOOKED_AT = 8192
_NOT_TEXT = re.compile("[\ufffd\x00-\x08\x0e-\x1f]")
# Of a file's first bytes: what does not belong to a text.

_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Budget:
    """Bytes of foreign content that one page may hold; a browser must be able to open it."""

    def __init__(self, size: int = 24 * 1024 * 1024) -> None:
        self._left = size

    @property
    def left(self) -> int:
        """What is not reserved."""
        return self._left

    def take(self, size: int) -> bool:
        """Reserve space; False if too little is left."""
        fits = size <= self._left
        self._left -= size if fits else 0
        return fits

    def share(self, parts: int) -> Budget:
        """Return the budget of one of some parts, so that the first ones leave as much for the last."""
        return Budget(self._left // max(1, parts))


def read_outputs(folder: WorkspaceFolder, relative: str, budget: Budget) -> tuple[tuple[ShownFile, ...], str]:
    """Return the answer of a run and the files in its folder `relative`, and what is left out."""
    found = [*_answer(folder, relative.rpartition("/")[0], budget)]
    for name, entry in walk(folder, relative):
        if len(found) == MAX_FILES:
            return tuple(found), f"Only the first {MAX_FILES} files are listed."
        found.append(_output(folder, f"{relative}/{name}", name, entry, budget))
    return tuple(found), ""


def _answer(folder: WorkspaceFolder, run: str, budget: Budget) -> Iterator[ShownFile]:
    """Yield what the agent said at the end, which lies beside its files."""
    for entry in folder.entries(run):
        if entry.name == ANSWER_FILE and entry.size:
            yield _output(folder, f"{run}/{ANSWER_FILE}", ANSWER_FILE, entry, budget)


def walk(folder: WorkspaceFolder, top: str, below: str = "", depth: int = 0) -> Iterator[tuple[str, FolderEntry]]:
    """Yield the files below a folder with their paths; what is not read is among them."""
    for entry in folder.entries(f"{top}/{below}".rstrip("/")):
        name = f"{below}/{entry.name}" if below else entry.name
        if not entry.is_folder:
            yield name, entry
        elif depth < _MAX_DEPTH:
            yield from walk(folder, top, name, depth + 1)
        else:
            yield name, entry._replace(refused=f"a folder more than {_MAX_DEPTH} levels deep")


def _output(folder: WorkspaceFolder, relative: str, name: str, entry: FolderEntry, budget: Budget) -> ShownFile:
    shown = printable(name)
    if entry.refused:
        return ShownFile(shown, FileKind.OTHER, note=f"Not read: {entry.refused}.")
    if entry.size is not None and entry.size > MAX_FILE_SIZE:
        return ShownFile(shown, FileKind.OTHER, entry.size, note="Too large to be read.")
    raw = folder.read(relative)
    if raw is None:
        return ShownFile(shown, FileKind.OTHER, entry.size, note="Cannot be read.")
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    kind, content, note = _content(raw, name, max(budget.left, _LEAST_TEXT))
    if not budget.take(len(content)):
        content, note = "", "Not shown: the report has reached its size limit."
    return ShownFile(shown, kind, len(raw), digest, content, note)


def _content(raw: bytes, name: str, room: int) -> tuple[FileKind, str, str]:
    """Return how a file is shown, its content, of a text as much as there is room for, and what is left out."""
    media_type = _media_type(raw, name)
    if media_type and len(raw) > MAX_IMAGE:
        return FileKind.OTHER, "", f"An image of more than {MAX_IMAGE // 1024:,} KB is not shown."
    if media_type:
        return FileKind.IMAGE, f"data:{media_type};base64,{base64.b64encode(raw).decode('ascii')}", ""
    # A text may hold a stray byte or control character, a binary file has many of them.
    start = raw[:_LOOKED_AT].decode("utf-8", "replace")
    if len(_NOT_TEXT.findall(start)) > len(start) / 10:
        return FileKind.OTHER, "", ""
    return FileKind.TEXT, *decoded(raw, min(MAX_TEXT, room))


def _media_type(raw: bytes, name: str) -> str:
    """Return the type of an image by its content; an SVG needs its suffix too, because it is text."""
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    if name.lower().endswith(".svg") and b"<svg" in raw[:4096]:
        return "image/svg+xml"
    return next((kind for start, kind in _IMAGES if raw.startswith(start)), "")


def decoded(raw: bytes, limit: int) -> tuple[str, str]:
    """Return the text of a file up to a number of characters, and what is left out or replaced."""
    content = raw.decode("utf-8", "replace")
    notes = []
    if "\ufffd" in content and "\ufffd".encode() not in raw:
        notes.append("Bytes that are not UTF-8 are shown as \ufffd.")
    if len(content) > limit:
        notes.append(f"The first {limit:,} of {len(content):,} characters.")
    return content[:limit], " ".join(notes)


_HEAD, _TAIL = 60, 60
# Entries that are shown of the beginning and of the end.

MAX_ENTRY: Final = 4000
"""Characters of one entry that the report shows."""

_MAX_DOCUMENT = 60_000
# Characters of a transcript that is a document.

_DOCUMENTS = ("transcript.md", "outputs/transcript.md")
# skill-creator's agents write one of these.


def read_transcript(folder: WorkspaceFolder, run: str, budget: Budget | None) -> tuple[ShownTranscript, float | None]:
    """Return the transcript of the run in a folder, and the money that it tells of; without a budget only the money."""
    raw = folder.read(f"{run}/transcript.jsonl")
    if raw is not None:
        lines = [line for line in raw.split(b"\n") if line.strip()]
        return (_from_lines(lines, budget) if budget else ShownTranscript()), _cost(lines)
    if budget is None:
        return ShownTranscript(), None
    for name in _DOCUMENTS:
        raw = folder.read(f"{run}/{name}")
        if raw is not None:
            content, note = decoded(raw, _MAX_DOCUMENT)
            return _within(budget, ShownTranscript(((name, content),), note=note)), None
    return ShownTranscript(), None


def read_lines(folder: WorkspaceFolder, path: str, budget: Budget) -> ShownTranscript:
    """Return the transcript in a file of JSON lines; an empty one if it cannot be read."""
    raw = folder.read(path)
    return _from_lines([line for line in (raw or b"").split(b"\n") if line.strip()], budget)


def _from_lines(lines: Sequence[bytes], budget: Budget) -> ShownTranscript:
    long = len(lines) > _HEAD + _TAIL
    head = _entries(lines[:_HEAD] if long else lines)
    tail = _entries(lines[-_TAIL:]) if long else ()
    transcript = ShownTranscript(head, tail, len(lines) - _HEAD - _TAIL if long else 0)
    return _within(budget, transcript)


def _within(budget: Budget, transcript: ShownTranscript) -> ShownTranscript:
    """Return a transcript with as many entries, and as much of each, as there is room for."""
    entries, characters = _HEAD, MAX_ENTRY
    while not budget.take(sum(len(entry[1]) for entry in (*transcript.head, *transcript.tail))):
        entries, characters = entries // 2, characters // 2
        if not entries:
            return ShownTranscript(note="Not shown: the report has reached its size limit.")
        transcript = shortened(transcript, entries, characters)
    return transcript


def shortened(transcript: ShownTranscript, entries: int, characters: int) -> ShownTranscript:
    """Return a transcript with at most this many entries of its beginning and of its end, and characters of each."""
    head, tail, left_out = transcript.head, transcript.tail, transcript.left_out
    if not left_out and len(head) > 2 * entries:
        head, tail = head[:entries], head[-entries:] if entries else ()
    elif left_out:
        head, tail = head[:entries], tail[-entries:] if entries else ()
    missing = len(transcript.head) + len(transcript.tail) - len(head) - len(tail)
    return replace(
        transcript,
        head=tuple((label, _cut(words, characters)) for label, words in head),
        tail=tuple((label, _cut(words, characters)) for label, words in tail),
        left_out=left_out + missing,
    )


def _entries(lines: Sequence[bytes]) -> tuple[tuple[str, str], ...]:
    return tuple(map(_transcript_entry, lines))


def _transcript_entry(line: bytes) -> tuple[str, str]:
    value = _parsed(line)
    if value is None or not isinstance(value, dict):
        return "text", _bounded(line.decode("utf-8", "replace"))
    label = " ".join(filter(None, (text(value.get(name)) for name in ("type", "subtype", "role", "event", "kind"))))
    return label[:100] or "entry", _bounded(_of_executor(value) or _message(value) or _as_json(value))


def _of_executor(value: Mapping[str, Any]) -> str:
    """Return what our own executor writes of a request to the model or of a call; empty for other entries."""
    match value:
        case {"kind": "model", "text": str(said), "wanted": list(wanted)}:
            lines = [said, f"→ {', '.join(texts(wanted))}" if wanted else "", text(value.get("error"))]
        case {"kind": "tool", "call": {"tool": str(tool), "text": str(said), **call}}:
            decision = text(call.get("decision"))
            told = ": ".join(filter(None, (decision if decision != "done" else "", text(call.get("reason")))))
            lines = [f"→ {tool} {_as_json(call.get('arguments'))}", f"← {said}" if said else "", told]
        case _:
            return ""
    return "\n".join(filter(None, lines))


def _message(value: Mapping[str, Any]) -> str:
    """Return the text and the tool calls of a message; empty if the entry has another form."""
    content = first(dict(value) | dict(record(value.get("message"))), "content", "text")
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(filter(None, map(_block, blocks)))


def _block(value: Any) -> str:  # noqa: ANN401 - JSON
    match value:
        case str():
            return value
        case {"type": "text" | "thinking", **rest}:
            return text(rest.get("text")) or text(rest.get("thinking"))
        case {"type": "tool_use", "name": str(name), **rest}:
            return f"→ {name} {_as_json(rest.get('input'))}"
        case {"type": "tool_result", **rest}:
            content = rest.get("content")
            return f"← {content if isinstance(content, str) else _as_json(content)}"
        case None:
            return ""
    return _as_json(value)


def _as_json(value: Any) -> str:  # noqa: ANN401 - JSON
    try:
        return json.dumps(value, ensure_ascii=False, indent=1)
    except (RecursionError, ValueError):
        return "(nested too deep)"


def _parsed(line: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (RecursionError, ValueError):
        return None


def _bounded(content: str) -> str:
    return without_lone_surrogates(_cut(content, MAX_ENTRY))


def _cut(content: str, limit: int) -> str:
    return content if len(content) <= limit else f"{content[:limit]}… ({len(content) - limit:,} more)"


def _cost(lines: Sequence[bytes]) -> float | None:
    """Return the last total that the agent printed; Claude Code ends with one."""
    for line in reversed(lines):
        if b'"total_cost_usd"' in line:
            value = _parsed(line)
            return number(value.get("total_cost_usd")) if isinstance(value, dict) else None
    return None
