"""Read Jupyter notebooks as people see them: the text of the cells, without the syntax of JSON around it.

The strings are found in the text itself, so that no nesting is too deep and every cell has its position.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NotebookCell", "cells_of", "without_json"]

_TOKEN = re.compile(r'"((?:[^"\\]|\\.?)*+)(?:"|\Z)|[\[\]:]', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}


class NotebookCell(NamedTuple):
    """The source of one cell: the positions of its strings in the file, and whether it is code."""

    strings: tuple[tuple[int, int], ...]
    is_code: bool

    def source(self, text: str) -> str:
        """Return the source of the cell in the notebook `text`."""
        return "".join(_ESCAPE.sub(_unescaped, text[start:end]) for start, end in self.strings)


def cells_of(text: str) -> Iterator[NotebookCell]:
    """Yield the cells of a notebook; a value of `source` is a string or a list of strings."""
    kind, key, inside = "code", "", False
    strings: list[tuple[int, int]] = []
    for token in _TOKEN.finditer(text):
        string, mark = token[1], token[0]
        if inside:
            if string is not None:
                strings.append(token.span(1))
            else:
                yield NotebookCell(tuple(strings), kind == "code")
                key, strings, inside = "", [], False
        elif mark == "[" and key == "source:":
            inside = True
        elif mark == ":":
            key += ":"
        elif string is not None and key == "source:":
            yield NotebookCell((token.span(1),), kind == "code")
            key = ""
        else:
            kind = string if key == "cell_type:" and string is not None else kind
            key = string or ""


def without_json(text: str) -> str:
    """Return a notebook with blanks for everything but the sources of its cells, with the same positions."""
    parts: list[str] = []
    end = 0
    for cell in cells_of(text):
        for start, stop in cell.strings:
            parts += [_blank(text[end:start]), _ESCAPE.sub(_padded, text[start:stop])]
            end = stop
    return "".join([*parts, _blank(text[end:])])


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _CONTROLS.get(match[2], match[2])


def _padded(match: re.Match[str]) -> str:
    return _unescaped(match).rjust(len(match[0]))


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
