"""The cases of a report as rows, those first that a reader has to look at first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from server.capabilities.evals.report.model import Tone

if TYPE_CHECKING:
    from server.capabilities.evals.report.model import Case, Iteration, Run

LONGEST_NAME: Final = 160
"""Characters of a name of a case or of an assertion in a row; the whole of it is in its case."""

_LONGEST_INDEX: Final = 600
# Characters of a case that are searched before its part is read.

_SAME: Final = 0.0005
# Differences below this are due to rounding.

OUTCOMES: Final = {
    "lost": "lost",
    "gained": "gained",
    "same": "no difference",
    "alone": "not compared",
}
"""How the skill's arm compares with the baseline in a case."""

_TONES: Final = {"lost": Tone.BAD, "gained": Tone.GOOD, "same": Tone.NONE, "alone": Tone.NONE}

STATES: Final = {
    "fails": "fails",
    "partly": "passes in part",
    "passes": "passes",
    "error": "has errors",
    "ungraded": "not graded",
}
"""How one arm does in a case: whether its graded runs pass all assertions, and whether some runs have no result."""


class ArmState(NamedTuple):
    """The runs of a case in one arm: the mean of their scores, None if none is graded, and the keys of its states."""

    arm: str
    score: float | None
    states: tuple[str, ...]


class CaseRow(NamedTuple):
    """A case in the list: `outcome` is a key of `OUTCOMES`, `rank` its place with the failing ones first.

    `searched` are the texts in which a search finds it before its details are read.
    """

    case: Case
    id: str
    place: int
    rank: int
    outcome: str
    tone: Tone
    words: str
    arms: tuple[ArmState, ...]
    difference: float | None
    seconds: float | None
    tokens: float | None
    searched: str


def case_rows(iteration: Iteration) -> list[CaseRow]:
    """Return the cases, those first that were lost, then those that fail, that pass in part, and the rest."""
    pair = iteration.scores.pairing
    differences = {each.case: each.difference for each in pair.by_case} if pair else {}
    rows = [_row(iteration, case, place, differences.get(case.key)) for place, case in enumerate(iteration.cases, 1)]
    rows.sort(key=_concern)
    return [row._replace(rank=rank) for rank, row in enumerate(rows, 1)]


def _concern(row: CaseRow) -> tuple[int, float, int]:
    ours = row.arms[0] if row.arms else None
    difference = row.difference or 0.0
    if difference < -_SAME:
        return 0, difference, row.place
    if ours is None or ours.score is None or ours.score == 1:
        return (3 if ours is None or "error" not in ours.states else 1), -difference, row.place
    return (1 if not ours.score else 2), ours.score, row.place


def _row(iteration: Iteration, case: Case, place: int, difference: float | None) -> CaseRow:
    states = tuple(_state(arm, case.of(arm)) for arm in iteration.arms)
    outcome = _outcome(difference)
    subject = [run for run in case.of(iteration.subject) if not run.failed]
    words = _words(case, states[0] if states else None, outcome)
    return CaseRow(
        case=case,
        id=f"case-{place}",
        place=place,
        rank=0,
        outcome=outcome,
        tone=_TONES[outcome] if outcome != "alone" else _tone(states[0].score if states else None),
        words=words,
        arms=states,
        difference=difference,
        seconds=_mean(run.seconds for run in subject),
        tokens=_mean(run.tokens for run in subject),
        searched=" ".join((case.prompt[:_LONGEST_INDEX], *(text[:LONGEST_NAME] for text in case.assertions)))[
            : 2 * _LONGEST_INDEX
        ],
    )


def _outcome(difference: float | None) -> str:
    if difference is None:
        return "alone"
    if abs(difference) < _SAME:
        return "same"
    return "gained" if difference > 0 else "lost"


def _words(case: Case, ours: ArmState | None, outcome: str) -> str:
    if not case.runs:
        return "not started"
    if outcome == "alone" and ours is not None:
        return STATES[ours.states[0]]
    if outcome == "same" and ours is not None:
        return f"same, {STATES[ours.states[0]]}"
    return OUTCOMES[outcome]


def _tone(score: float | None) -> Tone:
    if score is None:
        return Tone.NONE
    return Tone.GOOD if score == 1 else Tone.MIXED if score else Tone.BAD


def _state(arm: str, runs: Sequence[Run]) -> ArmState:
    rates = [run.rate for run in runs if run.graded and run.rate is not None]
    score = fmean(rates) if rates else None
    errors = ("error",) if any(run.failed for run in runs) else ()
    if score is None:
        return ArmState(arm, None, errors or ("ungraded",))
    return ArmState(arm, score, ("passes" if score == 1 else "partly" if score else "fails", *errors))


def _mean(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def baseline_words(iteration: Iteration) -> str:
    """Return how the baseline runs, as in "passes without it"."""
    known = {"without_skill": "without it", "old_skill": "with the old one"}
    arm = iteration.baseline or ""
    return known.get(arm, f"in {arm.replace('_', ' ')}")
