"""Read frontmatter that is no YAML as it was meant, where that is plain: entry by entry, each by itself.

Covers what public skills get wrong most: `description: Use when: …`, values that start with `|`, `@`, a backtick or a
bracket that never closes, and quoted text that goes on without being indented. Knows nothing of files or fields.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.format.yaml12 import YamlError, load_mapping

if TYPE_CHECKING:
    from skills_core.format.yaml12 import YamlMapping

__all__ = ["Repair", "repair"]

_TOP_LEVEL_KEY = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*):(?:[ \t]+(\S.*))?$")

_MAX_MENDED = 200
# A frontmatter of more entries is not mended: each is read by itself.


@dataclass(frozen=True, slots=True)
class Repair:
    """A frontmatter as it was meant: its value with the lines of the original, and the same as YAML.

    `mended` are the entries that were no YAML, each with its line in `text`, counted from 1; `line` is that of the
    first of them in the original. `moved` tells of each line of the original which it is in `text`.
    """

    mapping: YamlMapping
    text: str
    mended: tuple[tuple[str, int], ...]
    line: int
    moved: tuple[int, ...]


def repair(yaml: str) -> Repair | None:
    """Mend the entries that are no YAML by themselves, and load again; None where that does not help."""
    blocks = _blocks(yaml.split("\n"))
    if len(blocks) > _MAX_MENDED:
        return None
    lines: list[str] = []
    original: list[str] = []
    mended: list[tuple[str, int]] = []
    moved: list[int] = []
    first = 0
    for block in blocks:
        head = _TOP_LEVEL_KEY.match(block[0].rstrip("\r"))
        written = block
        if head is not None and head[2] is not None and not _loads(block):
            written = _mended(head[1], head[2], block)
            mended.append((head[1], len(lines) + 1))
            first = first or len(original) + 1
        moved += [len(lines) + min(number, len(written)) for number in range(1, len(block) + 1)]
        lines += written
        # Filled up, so that what follows is where it was.
        original += [*written, *("" for _ in block[len(written) :])]
    if not mended:
        return None
    try:
        return Repair(load_mapping("\n".join(original)), "\n".join(lines), tuple(mended), first, tuple(moved))
    except YamlError:
        return None


def _mended(key: str, value: str, block: list[str]) -> list[str]:
    """Return an entry as YAML: its further lines indented, else all of it as one string in quotes.

    Blank lines and comments at its end stay as they are: they belong to no value.
    """
    end = len(block)
    while end > 1 and (not block[end - 1].strip() or block[end - 1].startswith("#")):
        end -= 1
    for own, after in ((block[:end], block[end:]), (block, [])):
        indented = [own[0], *(f"  {line}" if line.strip() else line for line in own[1:]), *after]
        if _loads(indented):
            return indented
    text = " ".join([value.strip(), *(line.strip() for line in block[1:end] if line.strip())])
    line_end = "\r" if block[end - 1].endswith("\r") else ""
    return [f"{key}: {json.dumps(text, ensure_ascii=False)}{line_end}", *block[end:]]


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
        # A carriage return is half of a line end only with its other half.
        load_mapping("\n".join([*lines, ""]))
    except YamlError:
        return False
    return True
