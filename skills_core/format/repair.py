"""Repair frontmatter that is not valid YAML, entry by entry, where the intent is clear.

Covers the most frequent faults of public skills: `description: Use when: …`, values that start with `|`, `@`, a
backtick or an unclosed bracket, and quoted text whose further lines are not indented.
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
        if head is not None and head[2] is not None and not _loads(block):
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
        if _loads(indented):
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


def _loads(lines: list[str]) -> bool:
    try:
        # A carriage return is valid only before a line feed.
        load_mapping("\n".join([*lines, ""]))
    except YamlError:
        return False
    return True
