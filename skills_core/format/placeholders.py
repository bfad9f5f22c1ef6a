r"""Where a body stands open for values: `{{parameters}}`, and the hosts' placeholders for words of a slash command.

`rendering.filling` has the rules of the placeholders and fills them.
"""

from __future__ import annotations

import re

# Each alternative begins with a literal, so that a search skips quickly through a long body.
PLACE = re.compile(
    r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\}\}(?!\})"
    r"|\$ARGUMENTS(?![A-Za-z0-9_])(?:\[([0-9]{1,3})\])?"
    r"|\$([0-9]{1,3})(?![A-Za-z0-9_]|[.,][0-9])"
    r"|\$([A-Za-z_][A-Za-z0-9_]*)"
)
"""One place; its groups are `PARAMETER`, `INDEX`, `NUMBER` and `NAME`."""

PARAMETER, INDEX, NUMBER, NAME = 1, 2, 3, 4

# `${{ … }}` belongs to GitHub, `{{{ … }}}` to Handlebars, and a backslash escapes: none of these is a parameter.
_NOT_BEFORE = frozenset("$\\{")


def parameters_of(body: str) -> tuple[str, ...]:
    """Return the names of the `{{parameters}}` in a body, each once, in the order of their first appearance."""
    if "{{" not in body:
        return ()
    return tuple(dict.fromkeys(match[PARAMETER] for match in PLACE.finditer(body) if is_parameter(match)))


def is_parameter(match: re.Match[str]) -> bool:
    """Tell whether a place is a `{{parameter}}`."""
    return match[PARAMETER] is not None and before(match) not in _NOT_BEFORE


def before(match: re.Match[str]) -> str:
    """Return the character before a place, empty at the beginning of the body."""
    return match.string[match.start() - 1 : match.start()]
