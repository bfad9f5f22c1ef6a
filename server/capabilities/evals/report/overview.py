"""What the first screen of a report says: each case as a row, failing ones first, and which assertions have changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from server.capabilities.evals.report.model import Tone
from server.capabilities.evals.report.scores import check_scores

if TYPE_CHECKING:
    from server.capabilities.evals.report.model import Case, Iteration, Run

LONGEST_NAME: Final = 160
"""Characters of a name of a case or of an assertion in a row; the whole of it is in its case."""

_LONGEST_INDEX: Final = 600
# Characters of a case that are searched before its part is read.

_SAME: Final = 0.0005
# Differences below this are due to rounding.

_HALF: Final = 0.5

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


class AssertionChange(NamedTuple):
    """An assertion that most runs pass in one arm and most fail in the other; `rates` are those passed, of all runs."""

    row: CaseRow
    text: str
    ours: tuple[int, int]
    theirs: tuple[int, int]

    @property
    def is_gained(self) -> bool:
        """Whether the skill's arm is the one that passes."""
        return self.ours[0] * self.theirs[1] > self.theirs[0] * self.ours[1]


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


def changed_assertions(iteration: Iteration, rows: Sequence[CaseRow]) -> tuple[list[AssertionChange], ...]:
    """Return the assertions that are lost and those that are gained with the skill, the largest changes first."""
    changes = [change for row in rows for change in _changes(iteration, row)]
    changes.sort(key=lambda change: -abs(_rate(change.ours) - _rate(change.theirs)))
    return [each for each in changes if not each.is_gained], [each for each in changes if each.is_gained]


def _changes(iteration: Iteration, row: CaseRow) -> Iterator[AssertionChange]:
    if iteration.baseline is None:
        return
    for score in check_scores(row.case, (iteration.subject, iteration.baseline)):
        (_, *ours), (_, *theirs) = score.arms
        change = AssertionChange(row, score.text, (ours[0], ours[1]), (theirs[0], theirs[1]))
        if ours[1] and theirs[1] and (_rate(change.ours) > _HALF) != (_rate(change.theirs) > _HALF):
            yield change


def _rate(passed: tuple[int, int]) -> float:
    return passed[0] / passed[1]


def baseline_words(iteration: Iteration) -> str:
    """Return how the baseline runs, as in "passes without it"."""
    known = {"without_skill": "without it", "old_skill": "with the old one"}
    arm = iteration.baseline or ""
    return known.get(arm, f"in {arm.replace('_', ' ')}")
