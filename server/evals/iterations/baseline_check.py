"""Assert that a run without the skill really was without it: baselines that have the skill show no difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skills_core.evals.grading.material import transcript_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from skills_core.skill import Skill

__all__ = ["baseline_fault", "instruction_lines"]

_MIN_LINE: Final = 60
# A shorter line of a body may occur in any text.


def baseline_fault(transcript: Sequence[str], skill: Skill, folders: Iterable[Path], given: str) -> str:
    """Return why a run without the skill does not count, empty if it does.

    `folders` are those of the skill. `given` is what the agent was given, which may repeat a line of the skill.
    """
    text = transcript_text(transcript)
    for folder in map(str, folders):
        if f"{folder}/" in text:
            return f"the baseline is not without the skill: the agent named {folder}"
    line = max(instruction_lines(skill), key=len, default="")
    if line and line in text and line not in given:
        return "the baseline is not without the skill: its transcript has a line of the instructions"
    return ""


def instruction_lines(skill: Skill) -> tuple[str, ...]:
    """Return the lines of a skill's instructions that are long enough to be recognized in a transcript."""
    lines = map(str.strip, skill.body.splitlines())
    return tuple(line for line in lines if len(line) >= _MIN_LINE)
