"""Put conditions of other tools into commands, each of them a call of `check_output.py` with quoted values.

A value of a file never becomes anything but an argument. Patterns are those of Python, in which the other tools'
usual ones mean the same; a pattern that Python refuses is not carried over.
"""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Sequence
from typing import Final

from skills_core.diagnostics import shortened

SCRIPT: Final = "check_output.py"
"""The script in the folder `evals` of a skill."""

_COMMAND: Final = f'python3 "$EVALS/{SCRIPT}"'

_MAX_VALUE: Final = 20_000
_MAX_SHOWN: Final = 200

_WORDS: Final = {
    "contains": "the output contains {}",
    "icontains": "the output contains {} (in any case)",
    "contains-all": "the output contains all of {}",
    "icontains-all": "the output contains all of {} (in any case)",
    "contains-any": "the output contains one of {}",
    "icontains-any": "the output contains one of {} (in any case)",
    "matches": "the output matches {}",
    "imatches": "the output matches {} (in any case)",
    "equals": "the answer is {}",
    "equals-json": "the answer is the JSON {}",
    "starts-with": "the answer begins with {}",
    "is-json": "the answer is JSON",
    "exists": "there is a file {}",
    "file-contains": "the file {} contains {}",
    "file-matches": "the file {} matches {}",
}
"""What each condition says, with its values."""

_PATTERNS: Final = frozenset({"matches", "imatches", "file-matches"})
_OF_FILES: Final = frozenset({"exists", "file-contains", "file-matches"})


class NotCarriedError(ValueError):
    """A condition that cannot be put into a command; the message says why."""


def check_of(condition: str, values: Sequence[object], *, denied: bool = False) -> dict[str, str]:
    """Return the assertion with the command for a condition and its values.

    Raises:
        NotCarriedError: the condition has no values, or some that cannot be used.
    """
    texts = [_text(each) for each in values]
    if not texts and condition != "is-json":
        raise NotCarriedError("conditions without a value")
    if condition in _PATTERNS:
        texts[-1] = _pattern(texts[-1])
    if condition in _OF_FILES and (texts[0].startswith("/") or ".." in texts[0].split("/") or "\\" in texts[0]):
        raise NotCarriedError("conditions about files outside of the outputs")
    said = _WORDS[condition]
    shown = [f"'{shortened(each, _MAX_SHOWN)}'" for each in texts]
    if said.count("{}") == 1:
        shown = [", ".join(shown)]
    words = ["not", condition, *texts] if denied else [condition, *texts]
    text = said.format(*shown)
    return {
        "text": f"not: {text}" if denied else text[:1].upper() + text[1:],
        "check": f"{_COMMAND} {shlex.join(words)}",
    }


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise NotCarriedError("conditions whose value is not a text")
    text = str(value)
    if not text or "\0" in text or len(text) > _MAX_VALUE:
        raise NotCarriedError(f"conditions whose value has not 1 to {_MAX_VALUE:,} characters")
    return text


def _pattern(pattern: str) -> str:
    """Return a pattern in the form of Python: other languages name groups without the P, and set flags anywhere."""
    pattern = re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        raise NotCarriedError("patterns that Python does not know") from None
    return pattern
