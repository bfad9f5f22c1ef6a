"""What a report shows: immutable values, read from the files of a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from skills_core.evals.feedback import digest_of_case
from skills_core.evals.triggers.results import SetResult

if TYPE_CHECKING:
    from skills_core.evals.grading.results import AssertionResult
    from skills_core.evals.statistics import Interval, Spread

_NO_RESULTS: Final = SetResult()

WITH_SKILL: Final = "with_skill"
"""The arm of the skill as it is now."""

BASELINES: Final = ("without_skill", "old_skill")
"""The arms that the skill is compared with, in the order of preference."""


class Status(StrEnum):
    """How far a run came."""

    PENDING = "pending"
    DONE = "done"
    ERROR = "error"
    TIMEOUT = "timeout"


FAILED: Final = frozenset({Status.ERROR, Status.TIMEOUT})


class FileKind(StrEnum):
    """How the report shows a file."""

    TEXT = "text"
    IMAGE = "image"
    OTHER = "other"


class Tone(StrEnum):
    """How a verdict is marked."""

    GOOD = "good"
    BAD = "bad"
    MIXED = "mixed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """A verdict: how it is marked, what it is called, and why."""

    tone: Tone
    title: str
    reason: str


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file that a run wrote: its content if the report shows it, and what is left out in `note`."""

    name: str
    kind: FileKind
    size: int | None = None
    digest: str = ""
    content: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ShownTranscript:
    """The shown entries of a transcript, (label, text) each; `left_out` lines lie between `head` and `tail`."""

    head: tuple[tuple[str, str], ...] = ()
    tail: tuple[tuple[str, str], ...] = ()
    left_out: int = 0
    note: str = ""

    def __bool__(self) -> bool:
        """Tell whether there is anything to show."""
        return bool(self.head or self.note)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a case in one arm; numbers are None if the files do not have them."""

    arm: str
    number: int
    path: str
    status: Status = Status.PENDING
    error: str = ""
    checks: tuple[AssertionResult, ...] = ()
    rate: float | None = None
    seconds: float | None = None
    tokens: float | None = None
    cost: float | None = None
    tool_calls: float | None = None
    outputs: tuple[ShownFile, ...] = ()
    outputs_note: str = ""
    transcript: ShownTranscript = ShownTranscript()
    notes: tuple[str, ...] = ()
    attempt: int = 1
    skill_loaded: bool | None = None
    outputs_digest: str = ""
    """The digest of what the run made, by which feedback belongs to it; empty if it is unknown."""

    @property
    def failed(self) -> bool:
        """Whether the run ended without a result, so that it counts in no rate."""
        return self.status in FAILED

    @property
    def has_outputs(self) -> bool:
        """Whether there is something to show of what the run made."""
        return bool(self.outputs or self.notes or self.outputs_note)

    @property
    def graded(self) -> bool:
        """Whether the run counts in rates."""
        return self.rate is not None and not self.failed


@dataclass(frozen=True, slots=True)
class ShownComparison:
    """A blind comparison of two outputs; the rubric has the scores of A and B by criterion."""

    winner: str
    reasoning: str
    details: tuple[tuple[str, str], ...] = ()
    rubric: tuple[tuple[str, str, str], ...] = ()


def feedback_version(words: str | None) -> str:
    """Return a text that tells whether feedback has changed; None stands for a case without any."""
    return "" if words is None else sha256(words.encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class Case:
    """A test case with its runs; `key` is the name of its folder, under which feedback is saved.

    `feedback` is about the outputs as they are, `replaced_feedback` about outputs that are not there any more.
    """

    key: str
    name: str
    prompt: str = ""
    expected: str = ""
    assertions: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    comparison: ShownComparison | None = None
    feedback: str | None = None
    replaced_feedback: str | None = None

    @property
    def feedback_version(self) -> str:
        """A text that changes with the feedback."""
        return feedback_version(self.feedback)

    @property
    def outputs_digest(self) -> str:
        """The digest of the outputs that feedback is about: those with the skill; empty if it is unknown."""
        return digest_of_case(run.outputs_digest for run in self.of(WITH_SKILL))

    def of(self, arm: str) -> tuple[Run, ...]:
        """Return the runs of an arm."""
        return tuple(run for run in self.runs if run.arm == arm)


@dataclass(frozen=True, slots=True)
class ArmScore:
    """The numbers of one arm; None where nothing is known.

    `rate` is over the graded runs; `mean`, with its interval, over the cases, each of which counts once.
    """

    arm: str
    runs: int
    graded: int
    failed: int
    rate: Spread | None
    mean: float | None
    interval: Interval | None
    error_interval: Interval | None
    seconds: Spread | None
    tokens: Spread | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class Bound:
    """The mean of the differences of cases, with its interval and the probability of its test; None if unknown."""

    difference: float | None
    interval: Interval | None = None
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class CaseScore:
    """The scores of one case in both arms; `case` is its key."""

    case: str
    subject: float
    baseline: float

    @property
    def difference(self) -> float:
        """What the skill adds."""
        return self.subject - self.baseline


@dataclass(frozen=True, slots=True)
class Pairing:
    """The cases that are graded in both arms, and the differences of their scores.

    `failures_as_zero` counts runs that failed, or were repeated because of that, as 0. `as_treated` leaves out the
    `not_loaded` runs, which never loaded the skill; None if agents do not tell. About `more_cases` further cases would
    decide a difference of `gain`.
    """

    cases: int
    difference: float
    interval: Interval | None
    probability: float
    method: str
    failures_as_zero: Bound
    as_treated: Bound | None
    not_loaded: int
    by_case: tuple[CaseScore, ...]
    more_cases: int | None
    gain: float | None
    seconds: float | None
    tokens: float | None


@dataclass(frozen=True, slots=True)
class CheckScore:
    """How often an assertion passed in each arm, as (arm, passed, graded)."""

    text: str
    arms: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class PatternRow:
    """What the averages of a case hide, one line for each assertion or run."""

    kind: str
    case: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AssertionChange:
    """An assertion that passes more or less often than in the baseline; runs are those passed, and all that count."""

    case: str
    text: str
    difference: float
    ours: tuple[int, int]
    theirs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Scores:
    """What the runs of an iteration add up to; `pairing` is None without a case that is graded in both arms.

    Of the `changed` assertions, those that differ most come first.
    """

    arms: tuple[ArmScore, ...] = ()
    pairing: Pairing | None = None
    verdict: ShownVerdict = ShownVerdict(Tone.NONE, "No verdict", "No run is graded.")
    patterns: tuple[PatternRow, ...] = ()
    changed: tuple[AssertionChange, ...] = ()

    def of(self, arm: str) -> ArmScore | None:
        """Return the numbers of an arm."""
        return next((each for each in self.arms if each.arm == arm), None)


@dataclass(frozen=True, slots=True)
class Iteration:
    """One pass over all cases; `stopped` says which bound of the costs has ended it before its time."""

    number: int
    label: str
    folder: str
    cases: tuple[Case, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    scores: Scores = Scores()
    complete: bool = True
    stopped: str = ""

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that have runs: the skill's first, the usual baselines last."""
        found = {run.arm for case in self.cases for run in case.runs}
        usual = [arm for arm in (WITH_SKILL, *BASELINES) if arm in found]
        others = sorted(found.difference(usual))
        return (*usual[: WITH_SKILL in found], *others, *usual[WITH_SKILL in found :])

    @property
    def subject(self) -> str:
        """The arm that is judged."""
        return next(iter(self.arms), WITH_SKILL)

    @property
    def baseline(self) -> str | None:
        """The arm that it is compared with."""
        usual = [arm for arm in BASELINES if arm in self.arms]
        return next((arm for arm in (*usual, *self.arms) if arm != self.subject), None)


@dataclass(frozen=True, slots=True)
class RoundScore:
    """How many queries of a set had the wanted outcome in a round."""

    passed: int | None
    total: int | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class TriggerRound:
    """One description that was tried, with its scores by set (train, validation, test)."""

    number: int
    description: str
    scores: tuple[tuple[str, RoundScore], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class RunCosts:
    """What work has cost; None where nothing is known."""

    runs: int = 0
    seconds: float | None = None
    tokens: float | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class TriggerSet:
    """One measurement of trigger queries, with the rounds of an optimisation if there were any.

    `results` are those of the description that counts, which `measured` names if several were tried: a new one as soon
    as it is adopted. `replaced` then has the outcomes of the old one.
    """

    number: int
    label: str
    skill: str = ""
    description: str = ""
    results: SetResult = _NO_RESULTS
    rounds: tuple[TriggerRound, ...] = ()
    best: int | None = None
    facts: tuple[tuple[str, str], ...] = ()
    verdict: ShownVerdict | None = None
    measured: str = ""
    replaced: SetResult = _NO_RESULTS
    decision: ShownVerdict | None = None
    spent: RunCosts = RunCosts()
    complete: bool = True
    ranked: bool = False
    """Whether the queries were ranked by a search, so that there were no runs."""
    transcripts: Mapping[str, ShownTranscript] = field(default_factory=dict)
    """Those of the runs, by the paths that the results name."""


@dataclass(frozen=True, slots=True)
class Results:
    """All results of a skill, the oldest first; `problems` are files that could not be used."""

    skill: str
    iterations: tuple[Iteration, ...] = ()
    triggers: tuple[TriggerSet, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        """Whether the newest work is not complete."""
        iterations, triggers = self.iterations[-1:], self.triggers[-1:]
        return not (all(each.complete for each in iterations) and all(each.complete for each in triggers))
