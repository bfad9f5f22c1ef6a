"""The result of one eval run, the JSON of its files, and how the run of an agent counts.

`grading.json` is written for two readers: agentskills.io's guide has `assertion_results`, skill-creator
`expectations`. A run that did not end by itself is an error or a timeout and has no grading, because it says nothing
about the skill.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skills_core.evals.agents.kind import ANY_SKILL
from skills_core.evals.grading.leaks import LeakReason  # noqa: TC001 - read from JSON
from skills_core.scripts.process import exit_text

if TYPE_CHECKING:
    from skills_core.evals.agents.kind import AgentRun, Transcript
    from skills_core.evals.grading.cases import Assertion, EvalCase
    from skills_core.format.yaml12 import JsonObject


_LISTS: Final = ("assertion_results", "expectations", "assertions")
# Names of the list of results in the files of different tools.

TRANSCRIPT_FILE: Final = "transcript.jsonl"
"""The file in the folder of a run."""


class Arm(StrEnum):
    """What a run is given: the skill, nothing, or an earlier version of the skill. The values name folders."""

    WITH_SKILL = "with_skill"
    WITHOUT_SKILL = "without_skill"
    OLD_SKILL = "old_skill"


class EvalStatus(StrEnum):
    """How a run ended. Only runs that are done are graded."""

    DONE = "done"
    ERROR = "error"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class RunKey:
    """Identifies one run in an iteration: the case's folder, the arm, and the number of the run, from 1."""

    folder: str
    arm: Arm
    number: int

    def __str__(self) -> str:
        """Return the folder of the run in its iteration, which also is its name in messages."""
        return f"{self.folder}/{self.arm}/run-{self.number}"

    @property
    def flat(self) -> str:
        """The folder that a single run had in earlier versions, whose iterations are still read and continued."""
        return f"{self.folder}/{self.arm}"


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """The verdict on one assertion, with the evidence."""

    text: str
    passed: bool
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOutcome:
    """How a run ended and what it took; None stands for unknown.

    `skill_loaded` tells whether an agent that had the skill loaded it, and `grading_error` why a run that is done could
    not be graded. `outputs_digest` is that of the outputs and the answer, empty if it is unknown. `reason` tells what
    shows that a run had what no run is given.
    """

    status: EvalStatus
    error: str = ""
    exit_code: int | None = None
    duration_ms: int = 0
    total_tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: int | None = None
    grading_error: str = ""
    attempt: int = 1
    skill_loaded: bool | None = None
    outputs_digest: str = ""
    notes: tuple[str, ...] = ()
    reason: LeakReason | None = None

    def to_json(self) -> JsonObject:
        """Return the object of `outcome.json`."""
        return {
            "status": self.status.value,
            "error": self.error or None,
            "reason": self.reason,
            "exit_code": self.exit_code,
            "attempt": self.attempt,
            "tool_calls": self.tool_calls,
            "skill_loaded": self.skill_loaded,
            "outputs_digest": self.outputs_digest or None,
            "grading_error": self.grading_error or None,
            "notes": list(self.notes),
        }

    def timing(self) -> JsonObject:
        """Return the object of `timing.json`."""
        return {
            "total_tokens": self.total_tokens,
            "duration_ms": self.duration_ms,
            "total_duration_seconds": round(self.duration_ms / 1000, 3),
            "cost_usd": self.cost_usd,
        }


@dataclass(frozen=True, slots=True)
class EvalRun:
    """One run of a case: its outcome, and the results of its assertions, None if it is not graded.

    `place` is its folder in the iteration where this is not the usual one, `RunKey.flat`.
    """

    key: RunKey
    case: EvalCase
    outcome: EvalOutcome
    results: tuple[AssertionResult, ...] | None = None
    place: str = ""

    @property
    def pass_rate(self) -> float | None:
        """The share of assertions that passed; None if there is no grading or no assertion."""
        return sum(each.passed for each in self.results) / len(self.results) if self.results else None

    @property
    def problem(self) -> str:
        """Why the run has no grading; empty if it has one."""
        if self.outcome.status is not EvalStatus.DONE:
            return self.outcome.error or self.outcome.status.value
        return self.outcome.grading_error or ("" if self.results is not None else "it was not graded")

    def score(self) -> RunScore:
        """Return the run as it counts in its iteration."""
        ended = not self.outcome.error
        return RunScore(
            case=self.key.folder,
            arm=self.key.arm.value,
            number=self.key.number,
            results=self.results or (),
            rate=self.pass_rate,
            seconds=self.outcome.duration_ms / 1000 if ended else None,
            tokens=self.outcome.total_tokens if ended else None,
            is_gradable=bool(self.case.assertions),
            is_graded=not self.problem,
            is_repeated=self.outcome.attempt > 1,
            loaded=self.outcome.skill_loaded,
            cost_usd=self.outcome.cost_usd,
            transcript=f"{self.place or self.key}/{TRANSCRIPT_FILE}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScore:
    """One run that has ended, as it counts in its iteration; numbers are None where they are unknown.

    `seconds` and `tokens` are those of a run that ended by itself. `is_gradable` tells that the case has assertions,
    and `is_graded` that nothing kept the run from being graded. `is_repeated` tells that the run failed before, and
    `loaded` whether the skill was loaded, if it was there. `transcript` is relative to the iteration.
    """

    case: str
    arm: str
    number: int
    results: tuple[AssertionResult, ...] = ()
    rate: float | None = None
    seconds: float | None = None
    tokens: float | None = None
    is_gradable: bool = True
    is_graded: bool = True
    is_repeated: bool = False
    loaded: bool | None = None
    cost_usd: float | None = None
    transcript: str = ""

    def metric(self, name: str) -> float | None:
        """Return what `run_summary` has by this name; a run without a grading counts in no mean."""
        if not self.is_graded:
            return None
        return {"pass_rate": self.rate, "time_seconds": self.seconds}.get(name, self.tokens)


def metadata_of(case: EvalCase, key: RunKey | None = None) -> JsonObject:
    """Return the object of `eval_metadata.json`, of a case or of one of its runs."""
    shared: JsonObject = {
        "eval_id": case.id,
        "eval_name": case.name or case.slug,
        "prompt": case.prompt,
        "assertions": [_assertion_to_json(each) for each in case.assertions],
    }
    if key is None:
        return {**shared, "expected_output": case.expected_output}
    return {**shared, "arm": key.arm.value, "run_number": key.number}


def _assertion_to_json(assertion: Assertion) -> str | JsonObject:
    return assertion.text if assertion.check is None else {"text": assertion.text, "check": assertion.check}


def grading_basis(case: EvalCase, judge: str) -> dict[str, str | None]:
    """Return what a grading rests on besides the outputs; one of another basis is not a grading of the case as it is.

    `assertions` is a digest of the assertions with their checks, and of the expected output, which a judge is shown.
    `judge` is the model or agent that decided assertions without a check, null if all have one.
    """
    judged = any(each.check is None for each in case.assertions)
    listed = [[each.text, each.check, *([each.absent] if each.absent else [])] for each in case.assertions]
    text = json.dumps([*listed, case.expected_output if judged else ""])
    digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    return {"assertions": digest, "judge": (judge if judged else "") or None}


def grading_to_json(results: Sequence[AssertionResult], basis: Mapping[str, str | None]) -> JsonObject:
    """Return the object of `grading.json` of one result or more."""
    passed = sum(each.passed for each in results)
    listed: list[Any] = [{"text": each.text, "passed": each.passed, "evidence": each.evidence} for each in results]
    return {
        "assertion_results": listed,
        "expectations": listed,
        "summary": {
            "passed": passed,
            "failed": len(results) - passed,
            "total": len(results),
            "pass_rate": round(passed / len(results), 4),
        },
        "basis": {**basis},
    }


def is_grading_of(value: object, results: Sequence[AssertionResult], case: EvalCase, judge: str | None) -> bool:
    """Tell whether a `grading.json` with these results is one of a case; any judge will do if `judge` is None.

    Files of other tools have no basis: they count by the texts of the assertions.
    """
    if [each.text for each in results] != [each.text for each in case.assertions]:
        return False
    basis = value.get("basis") if isinstance(value, Mapping) else None
    if not isinstance(basis, Mapping):
        return True
    wanted = grading_basis(case, judge or "")
    same_judge = judge is None or not wanted["judge"] or basis.get("judge") == wanted["judge"]
    return basis.get("assertions") == wanted["assertions"] and same_judge


def grading_from_json(value: object) -> tuple[AssertionResult, ...] | None:
    """Return the results in a `grading.json` of any of its dialects; None if it has none, or one cannot be used."""
    listed, results = _listed(value), results_from_json(value)
    return results if listed is not None and len(results) == len(listed) else None


def results_from_json(value: object) -> tuple[AssertionResult, ...]:
    """Return the results in a `grading.json` of any of its dialects that can be used."""
    return tuple(result for each in _listed(value) or () if (result := _result(each)) is not None)


def _listed(value: object) -> list[Any] | None:
    if not isinstance(value, Mapping):
        return None
    return next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)


def _result(value: object) -> AssertionResult | None:
    match value:
        case (
            {"text": str(text), "passed": bool(passed), **rest}
            | {"assertion": str(text), "passed": bool(passed), **rest}
            | {"name": str(text), "passed": bool(passed), **rest}
        ):
            evidence = rest.get("evidence")
            return AssertionResult(text, passed, evidence if isinstance(evidence, str) else "")
    return None


def outcome_from_json(outcome: object, timing: object) -> EvalOutcome | None:
    """Return the outcome in `outcome.json` and `timing.json`, None if they are missing or damaged."""
    if not isinstance(outcome, Mapping) or not isinstance(timing, Mapping):
        return None
    known = {name: value for name, value in {**timing, **outcome}.items() if value is not None}
    try:
        return msgspec.convert(known, EvalOutcome)
    except msgspec.ValidationError:
        return None


def status_of(run: AgentRun, seconds: float, *, known: bool) -> tuple[EvalStatus, str]:
    """Return the status of a run that had `seconds`, and why it is not done.

    `known` tells that the agent is one whose output has to be readable.
    """
    record = run.transcript
    if run.timed_out:
        return EvalStatus.TIMEOUT, f"the agent took longer than {seconds:g} seconds; raise --timeout"
    if run.fault:
        return EvalStatus.ERROR, run.fault
    if record.is_error:
        return EvalStatus.ERROR, f"the agent reports: {record.error or 'an error'}"
    said = f": {run.errors}" if run.errors else ""
    if run.exit_code not in {0, None}:
        return EvalStatus.ERROR, f"the agent's command {exit_text(run.exit_code)}{said}"
    if known and not record.recognized:
        return EvalStatus.ERROR, f"nothing that the agent printed can be read as its record{said}"
    return EvalStatus.DONE, ""


def absence_fault(record: Transcript, skill: str, *, known: bool) -> str:
    """Return why a run that must be without the skill was not, empty if it was.

    `known` tells that the agent is one whose list of skills counts.
    """
    if skill in record.loaded:
        return f"the baseline is not without the skill: the agent loaded {skill}"
    if known and skill in (record.available or ()):
        return f"the baseline is not without the skill: the agent lists {skill}"
    return ""


def load_fault(record: Transcript, skill: str) -> str:
    """Return why an agent could not have loaded the skill in its own folder, empty if it could."""
    if record.available is None or skill in (*record.available, *record.loaded):
        return ""
    return f"the agent does not list {skill} among the skills that it has"


def load_note(record: Transcript, skill: str) -> str:
    """Return a remark on a run in which the skill was there and not loaded, empty if it was loaded."""
    if skill in record.loaded:
        return ""
    if skill in record.denied or ANY_SKILL in record.denied:
        return f"{skill} was never loaded, because a permission stopped the agent: this run measures nothing of it"
    if skill in record.failed:
        why = record.failed[skill] or "it gave no reason"
        return f"{skill} was never loaded, because the agent's own tool failed ({why}): this run measures nothing of it"
    return f"{skill} was never loaded: this run measures nothing of it"
