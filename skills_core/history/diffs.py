"""Show what differs between two states, as a unified diff that is safe for a terminal."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import one_line
from skills_core.history.entries import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skills_core.history.entries import Entry, State

__all__ = ["unified_diff"]

_MAX_COMPARED: Final = 200_000
# Comparing lines may take quadratic time.


def unified_diff(before: State, after: State, read: Callable[[str], bytes]) -> str:
    """Return the differences from one state to another; `read` returns the bytes of an object."""
    lines: list[str] = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old != new:
            lines += _entry_lines(path, old, new, read)
    return "".join(f"{line}\n" for line in lines)


def _entry_lines(path: str, old: Entry | None, new: Entry | None, read: Callable[[str], bytes]) -> Iterator[str]:
    shown = one_line(path)
    if all(each is None or each.kind is Kind.FOLDER for each in (old, new)):
        if old is not None and new is not None:
            yield f"mode of {shown}/: {old.mode:04o} -> {new.mode:04o}"
        return
    for each, what in ((old, "-"), (new, "+")):
        if each is not None and each.kind is Kind.LINK:
            yield f"{what}{shown} is a link to {one_line(read(each.blob).decode('utf-8', 'replace'))}"
    if old is not None and new is not None and old.kind is new.kind and old.mode != new.mode:
        yield f"mode of {shown}: {old.mode:04o} -> {new.mode:04o}"
    raw = [read(each.blob) if each is not None and each.kind is Kind.FILE else b"" for each in (old, new)]
    if raw[0] == raw[1]:
        is_new_or_gone = old is None or new is None
        yield from [f"{'new' if old is None else 'removed'} empty file {shown}"] * (
            is_new_or_gone and not _links(old, new)
        )
        return
    texts = [_text(each) for each in raw]
    if texts[0] is None or texts[1] is None:
        yield f"{shown}: {len(raw[0])} bytes -> {len(raw[1])} bytes, not shown"
        return
    names = (f"a/{shown}" if old else "/dev/null", f"b/{shown}" if new else "/dev/null")
    for line in difflib.unified_diff(_lines(texts[0]), _lines(texts[1]), names[0], names[1], lineterm=""):
        yield line[:1] + one_line(line[1:]).replace("\\t", "\t")


def _links(*entries: Entry | None) -> bool:
    return any(each is not None and each.kind is Kind.LINK for each in entries)


def _lines(text: str) -> list[str]:
    """Return the lines; the last one says if it has no end, and each one if it ends as on Windows."""
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]} (no newline at the end)"]


def _text(raw: bytes) -> str | None:
    if len(raw) > _MAX_COMPARED or b"\0" in raw:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
