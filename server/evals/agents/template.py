"""Fill the placeholders of a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["fill"]

_PLACEHOLDER: Final = re.compile(r"(?<!\$)\{(\w+)\}")
# `${files}` is a variable of the shell.


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace placeholders once; other braces, and values that look like placeholders, stay as they are."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)
