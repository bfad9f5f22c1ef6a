"""The signals of an iteration of evals: grades, feedback and transcripts, from the files that evals write.

Grades of both dialects are read: `assertion_results` as agentskills.io has them, `expectations` as skill-creator. Runs
may have written to these files, so a value of another type counts as absent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CaseSignals",
    "Grade",
    "RunSignals",
    "read_grades",
    "read_object",
    "shortened_transcript",
]

_HEAD, _TAIL = 4_000, 8_000
# Characters of a transcript's beginning and end: the plan and the outcome say most about a cause.
_MARK = 100
# Characters of the line between them, at most.
_MAX_GRADES = 500
_MAX_TEXT = 4_000


@dataclass(frozen=True, slots=True)
class Grade:
    """One assertion of a run: whether it passed, and the evidence."""

    text: str
    passed: bool
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class RunSignals:
    """One run with the skill: its grades, the names of the files it wrote, its transcript, and what went wrong."""

    name: str
    grades: tuple[Grade, ...] = ()
    outputs: tuple[str, ...] = ()
    transcript: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class CaseSignals:
    """A test case: the runs with the skill, and for each assertion how often it passed in how many baseline runs."""

    name: str
    prompt: str = ""
    expected_output: str = ""
    feedback: str = ""
    runs: tuple[RunSignals, ...] = ()
    baseline: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def read_object(raw: bytes | None) -> dict[str, Any]:
    """Return a JSON object, or an empty one if the bytes hold none."""
    try:
        value = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_grades(raw: bytes | None) -> tuple[Grade, ...]:
    """Return the grades in a `grading.json`."""
    grading = read_object(raw)
    listed = next((grading[key] for key in ("assertion_results", "expectations", "assertions") if grading.get(key)), ())
    return tuple(
        Grade(each["text"][:_MAX_TEXT], each.get("passed") is True, _text(each.get("evidence")))
        for each in (listed[:_MAX_GRADES] if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(each.get("text"), str)
    )


def _text(value: object) -> str:
    return value[:_MAX_TEXT] if isinstance(value, str) else ""


def shortened_transcript(text: str) -> str:
    """Return a transcript without its middle if it is long; a shortened one stays as it is."""
    if len(text) <= _HEAD + _TAIL + _MARK:
        return text
    return f"{text[:_HEAD]}\n[… {len(text) - _HEAD - _TAIL} characters left out …]\n{text[-_TAIL:]}"
