"""Reads the inline metadata of Python scripts (PEP 723): their requirements, as TOML in comments."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.errors import ScriptRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ScriptMetadata", "read_metadata"]

_START = "# /// script"
_END = "# ///"

_MAX_CHARACTERS = 100_000
# Most characters of a block; requirements are shorter.


@dataclass(frozen=True, slots=True)
class ScriptMetadata:
    """The metadata of a script. `block` is the comment itself, with line feeds as line ends.

    `uv` holds the options for uv, unchecked.
    """

    block: str
    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None
    uv: Mapping[str, object] = field(default_factory=dict)


def read_metadata(path: str, raw: bytes) -> ScriptMetadata | None:
    """Return the metadata of the script `path` with the content `raw`, None if it has none.

    Raises:
        ScriptRefusedError: there are several blocks, or the block is invalid.
    """
    if _START.encode() not in raw:
        return None
    blocks = _blocks(raw.decode("utf-8-sig", errors="replace"))
    if not blocks:
        return None
    if len(blocks) > 1:
        raise ScriptRefusedError(path, f"it has {len(blocks)} blocks `{_START}`; expected one")
    block = blocks[0]
    if len(block) > _MAX_CHARACTERS:
        raise ScriptRefusedError(path, f"its block `{_START}` has more than {_MAX_CHARACTERS} characters")
    text = "".join(f"{line[2:]}\n" for line in block.splitlines()[1:-1])
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScriptRefusedError(path, f"its block `{_START}` is not valid TOML: {str(error)[:200]}") from None
    dependencies, python = found.get("dependencies", []), found.get("requires-python")
    if not isinstance(dependencies, list) or not all(isinstance(each, str) for each in dependencies):
        raise ScriptRefusedError(path, "dependencies: expected a list of strings")
    if python is not None and not isinstance(python, str):
        raise ScriptRefusedError(path, "requires-python: expected a string")
    tool = found.get("tool", {})
    uv = tool.get("uv", {}) if isinstance(tool, dict) else None
    if not isinstance(uv, dict):
        raise ScriptRefusedError(path, "tool.uv: expected a table")
    return ScriptMetadata(block, tuple(dependencies), python, uv)


def _blocks(text: str) -> list[str]:
    """Return all blocks; each extends to the last end marker in its unbroken run of comments."""
    blocks: list[str] = []
    lines = [line.rstrip("\r") for line in text.split("\n")]
    at = 0
    while at < len(lines):
        if lines[at] != _START:
            at += 1
            continue
        stop = at + 1
        while stop < len(lines) and (lines[stop] == "#" or lines[stop].startswith("# ")):
            stop += 1
        ends = [index for index in range(at + 1, stop) if lines[index] == _END]
        if ends:
            blocks.append("".join(f"{line}\n" for line in lines[at : ends[-1] + 1]))
        at = stop
    return blocks
