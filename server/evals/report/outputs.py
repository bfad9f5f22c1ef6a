"""The files that a run wrote: text and images up to a limit, of all others name, size and digest."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final

from server.evals.report.model import FileKind, OutputFile
from skills_core.diagnostics import printable
from skills_core.disk.files import MAX_FILE_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.evals.report.folder import Entry, Folder

__all__ = ["Budget", "decoded", "read_outputs"]

MAX_TEXT: Final = 64 * 1024
"""Characters of a text file that the report shows."""

MAX_IMAGE: Final = 2 * 1024 * 1024
"""Largest image in bytes that the report contains."""

MAX_FILES: Final = 100
"""Files of one run that the report lists."""

ANSWER_FILE: Final = "answer.txt"

_MAX_DEPTH = 8

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

    def take(self, size: int) -> bool:
        """Reserve space; False if too little is left."""
        fits = size <= self._left
        self._left -= size if fits else 0
        return fits


def read_outputs(folder: Folder, relative: str, budget: Budget) -> tuple[tuple[OutputFile, ...], str]:
    """Return the answer of a run and the files in its folder `relative`, and what is left out."""
    found = [*_answer(folder, relative.rpartition("/")[0], budget)]
    for name, entry in _walk(folder, relative, ""):
        if len(found) == MAX_FILES:
            return tuple(found), f"Only the first {MAX_FILES} files are listed."
        found.append(_output(folder, f"{relative}/{name}", name, entry, budget))
    return tuple(found), ""


def _answer(folder: Folder, run: str, budget: Budget) -> Iterator[OutputFile]:
    """Yield what the agent said at the end, which lies beside its files."""
    for entry in folder.entries(run):
        if entry.name == ANSWER_FILE and entry.size:
            yield _output(folder, f"{run}/{ANSWER_FILE}", ANSWER_FILE, entry, budget)


def _walk(folder: Folder, top: str, below: str, depth: int = 0) -> Iterator[tuple[str, Entry]]:
    for entry in folder.entries(f"{top}/{below}".rstrip("/")):
        name = f"{below}/{entry.name}" if below else entry.name
        if not entry.is_folder:
            yield name, entry
        elif depth < _MAX_DEPTH:
            yield from _walk(folder, top, name, depth + 1)
        else:
            yield name, entry._replace(refused=f"a folder more than {_MAX_DEPTH} levels deep")


def _output(folder: Folder, relative: str, name: str, entry: Entry, budget: Budget) -> OutputFile:
    shown = printable(name)
    if entry.refused:
        return OutputFile(shown, FileKind.OTHER, note=f"Not read: {entry.refused}.")
    if entry.size is not None and entry.size > MAX_FILE_SIZE:
        return OutputFile(shown, FileKind.OTHER, entry.size, note="Too large to be read.")
    raw = folder.read(relative)
    if raw is None:
        return OutputFile(shown, FileKind.OTHER, entry.size, note="Cannot be read.")
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    kind, content, note = _content(raw, name)
    if not budget.take(len(content)):
        content, note = "", "Not shown: the report has reached its size limit."
    return OutputFile(shown, kind, len(raw), digest, content, note)


def _content(raw: bytes, name: str) -> tuple[FileKind, str, str]:
    media_type = _media_type(raw, name)
    if media_type and len(raw) > MAX_IMAGE:
        return FileKind.OTHER, "", f"An image of more than {MAX_IMAGE // 1024:,} KB is not shown."
    if media_type:
        return FileKind.IMAGE, f"data:{media_type};base64,{base64.b64encode(raw).decode('ascii')}", ""
    # A text may hold a stray byte or control character, a binary file has many of them.
    start = raw[:_LOOKED_AT].decode("utf-8", "replace")
    if len(_NOT_TEXT.findall(start)) > len(start) / 10:
        return FileKind.OTHER, "", ""
    return FileKind.TEXT, *decoded(raw, MAX_TEXT)


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
