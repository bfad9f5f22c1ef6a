"""Texts of strangers in the Markdown that GitHub renders: in comments, in the summaries of jobs, and in logs."""

from __future__ import annotations

import re
from typing import Final

from skills_core.diagnostics import without_lone_surrogates
from skills_core.texts import with_hidden_shown

MAX_TEXT: Final = 300
"""Characters of a text that are shown."""

_BREAK: Final = "&#8203;"
# GitHub looks for mentions, references and addresses in what it has rendered, where a backslash is gone. A zero-width
# space stays.

_SIGNIFICANT: Final = re.compile(
    r"(?P<linked>@|#(?=[\d\[])|:(?=//)|\bGH-(?=\d)|\bwww\.)|[\\`*_\[\]<>|~&:$]", re.IGNORECASE
)


def inline_markdown(text: str, most: int = MAX_TEXT) -> str:
    """Return a text on one line, of at most `most` characters before escapes, without a meaning in Markdown or HTML.

    It mentions nobody, refers to no issue, becomes no link, and is no command of a workflow.
    """
    line = " ".join(with_hidden_shown(without_lone_surrogates(text)).split())
    cut = line if len(line) <= most else f"{line[: most - 1]}…"
    return _SIGNIFICANT.sub(_escaped, cut)


def _escaped(found: re.Match[str]) -> str:
    return f"{found[0]}{_BREAK}" if found["linked"] else f"\\{found[0]}"
