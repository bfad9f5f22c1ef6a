"""JSON objects inside a text, such as an answer of a model that writes prose around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.run.ports import JsonObject

__all__ = ["visit_objects"]

_MAX_WORK: Final = 5_000_000
"""Characters that are read in all: braces that open no object cost what stands up to the point where that shows."""


def visit_objects(text: str, fits: Callable[[JsonObject], bool]) -> None:
    """Show `fits` each JSON object in `text`, in order; the inside of one that does not fit is looked at as well.

    What is no JSON is passed over. The time is bounded, however many braces the text has.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse)
    start, work = text.find("{"), 0
    while start >= 0 and work < _MAX_WORK:
        after = start + 1
        try:
            value, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            work += error.pos - start
        except (ValueError, RecursionError):  # NaN, a number of too many digits, too deep
            work += len(text) - start
        else:
            work += end - start
            if isinstance(value, dict) and fits(value):
                after = end
        start = text.find("{", after)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
