"""Decide assertions by commands: `sh` runs each in `outputs/`, exit code 0 is a PASS and the output the evidence."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from server.evals.agents.programs import CANNOT_START, check_syntax, run_shell
from server.evals.errors import EvalError
from skills_core.diagnostics import one_line
from skills_core.evals.grading.results import AssertionResult
from skills_core.run.scripts.process import ProcessEnding, ProcessLimits, exit_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skills_core.evals.grading.cases import Assertion, EvalCase

__all__ = ["CheckError", "CheckPlace", "check_commands", "run_check"]

CHECK_SECONDS: Final = 120.0
_MAX_OUTPUT: Final = 1_000_000
_MAX_EVIDENCE: Final = 2000


class CheckError(EvalError):
    """A check could not decide: it did not start, or did not end by itself."""


@dataclass(frozen=True, slots=True)
class CheckPlace:
    """Where checks of a run look: its folder, and the eval files of the skill."""

    folder: Path
    evals: Path

    def environment(self) -> dict[str, str]:
        """Return the environment of a check."""
        own = {
            "OUTPUTS": str(self.folder / "outputs"),
            "TRANSCRIPT": str(self.folder / "transcript.jsonl"),
            "ANSWER": str(self.folder / "answer.txt"),
            "EVALS": str(self.evals),
            # A check in Python must not leave files in the skill.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return {**os.environ, **own}


async def check_commands(cases: Sequence[EvalCase], where: Path) -> None:
    """Check the syntax of all commands before any run is paid for.

    Raises:
        EvalError: a command cannot be read by the shell.
    """
    for number, case in enumerate(cases):
        for position, assertion in enumerate(case.assertions):
            if assertion.check is not None and (fault := await check_syntax(assertion.check)):
                place = f"{where}: evals[{number}].assertions[{position}].check"
                raise EvalError(f"{place}: expected a command for sh, found {assertion.check[:100]!r}: {fault}")


async def run_check(assertion: Assertion, place: CheckPlace) -> AssertionResult:
    """Return the result of an assertion with a command.

    Raises:
        CheckError: the command could not decide.
    """
    limits = ProcessLimits(CHECK_SECONDS, _MAX_OUTPUT)
    done = await run_shell(assertion.check or "", place.folder / "outputs", place.environment(), limits)
    output = b"\n".join(filter(None, (done.stdout.strip(), done.stderr.strip()))).decode("utf-8", "replace")
    named = f"the check of {assertion.text[:100]!r}"
    match done.ending:
        case ProcessEnding.NOT_STARTED:
            raise CheckError(one_line(f"{named} was not started: {done.fault}"))
        case ProcessEnding.TIMED_OUT:
            raise CheckError(one_line(f"{named} took longer than {CHECK_SECONDS:g} seconds"))
        case ProcessEnding.TOO_MUCH_OUTPUT:
            raise CheckError(one_line(f"{named} printed more than {_MAX_OUTPUT} bytes"))
    if done.exit_code in CANNOT_START or done.exit_code is None or done.exit_code < 0:
        raise CheckError(one_line(f"{named} {exit_text(done.exit_code)}, so it decided nothing: {output[-300:]}"))
    passed = done.exit_code == 0
    evidence = _cut(output) or ("the check printed nothing" if passed else "")
    return AssertionResult(
        assertion.text, passed, evidence if passed else f"exit code {done.exit_code}. {evidence}".strip()
    )


def _cut(text: str) -> str:
    if len(text) <= _MAX_EVIDENCE:
        return text
    half = _MAX_EVIDENCE // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}"
