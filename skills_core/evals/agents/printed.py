"""What an agent printed, as lines of JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["lines_of", "transcript_lines"]


def lines_of(printed: bytes) -> list[str]:
    """Return the lines of what was printed; a text in JSON may have other line separators than these."""
    return [line.rstrip("\r") for line in printed.decode("utf-8", "replace").split("\n")]


def transcript_lines(stdout: bytes, stderr: bytes) -> Iterator[str]:
    """Yield the lines of both streams, one JSON value a line; other lines become objects with their text."""
    for line in lines_of(stdout):
        if line.strip():
            yield _json_line(line)
    for line in lines_of(stderr):
        if line.strip():
            yield json.dumps({"text": line, "stream": "stderr"}, ensure_ascii=False)


def _json_line(line: str) -> str:
    try:
        # A bare word or number is text that happens to be JSON.
        if isinstance(value := json.loads(line), dict | list):
            return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        pass
    return json.dumps({"text": line}, ensure_ascii=False)
