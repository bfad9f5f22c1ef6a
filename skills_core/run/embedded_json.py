"""Finds JSON objects inside a text, for example in a model's answer that has prose around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.format.yaml12 import JsonObject

__all__ = ["visit_objects"]

_MAX_WORK: Final = 5_000_000
"""Most characters that are read: a brace that opens no object costs the characters up to its syntax error."""


def visit_objects(text: str, fits: Callable[[JsonObject], bool]) -> None:
    """Call `fits` with each JSON object in `text`, in order; search an object that does not fit for inner ones.

    Anything that is not JSON is skipped. The time is bounded, however many braces the text has.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse)
    start, work = text.find("{"), 0
    while start >= 0 and work < _MAX_WORK:
        after = start + 1
        try:
            value, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            work += error.pos - start
        except (ValueError, RecursionError):  # NaN, a number with too many digits, or nested too deep
            work += len(text) - start
        else:
            work += end - start
            if isinstance(value, dict) and fits(value):
                after = end
        start = text.find("{", after)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
