"""The table of the source documents, with the number of rows that are met and that differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["seeds_page"]

_ROW = re.compile(r"^\| \[(?P<title>[^]]*)\]\((?P<page>seeds/[\w-]+\.md)\)(?P<subject>[^|]*) \|.*$", re.MULTILINE)
_PROMISE = re.compile(r"^\| .* \| \*\*(met|differs|planned)\*\* \|", re.MULTILINE)


def seeds_page(path: Path) -> str:
    """Return the page at `path` with the rows of its pages counted."""

    def counted(match: re.Match[str]) -> str:
        marks = _PROMISE.findall((path.parent / match["page"]).read_text(encoding="utf-8"))
        counts = [*map(marks.count, ("met", "differs", "planned")), len(marks)]
        return f"| [{match['title']}]({match['page']}){match['subject']} | {' | '.join(map(str, counts))} |"

    return _ROW.sub(counted, path.read_text(encoding="utf-8"))
