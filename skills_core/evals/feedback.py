"""A person's words on the outputs of an iteration: `feedback.json`. An empty text means that a case is fine.

Two forms are read: texts by case, as agentskills.io's guide has them, and skill-creator's reviews by run. The words on
a case are written in both, so that skill-creator shows them and does not lose them. Beside them,
`outputs` holds a digest of the outputs that the words on a case are about: words on outputs that have been replaced are
not words on the new ones. Runs may have written the file, so a value of another type counts as absent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

FEEDBACK_FILE: Final = "feedback.json"
"""The file in the folder of an iteration."""

_OUTPUTS: Final = "outputs"
_REVIEWS: Final = "reviews"
_LONGEST: Final = 100_000
# Characters of the words on one run or case.


class CaseFeedback(NamedTuple):
    """The words on the outputs of a case as they are now, and on outputs that were replaced; None if there are none."""

    now: str | None = None
    replaced: str | None = None


@dataclass(frozen=True, slots=True)
class Feedback:
    """The words by case, and the digests of the outputs that they are about, where these are known."""

    words: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)

    def on(self, case: str, outputs: str) -> CaseFeedback:
        """Return the words on a case whose outputs have this digest, empty if it is unknown."""
        words = self.words.get(case)
        about = self.outputs.get(case, "")
        if words is None or not about or not outputs or about == outputs:
            return CaseFeedback(words)
        return CaseFeedback(None, words)


def digest_of_case(runs: Iterable[str | None]) -> str:
    """Return the digest of the outputs of a case from those of its runs with the skill; empty if one is unknown."""
    digests = list(runs)
    if not digests or not all(digests):
        return ""
    return "sha256:" + hashlib.sha256(json.dumps(digests).encode()).hexdigest()


def read_feedback(value: object, cases: Collection[str]) -> Feedback:
    """Return the feedback in the value of a file.

    A review names a run, such as `eval-0-with_skill`; those on the runs of a case are joined. A text by case takes
    their place.
    """
    if not isinstance(value, dict):
        return Feedback()
    found: dict[str, str] = {}
    reviews = value.get(_REVIEWS)
    for review in reviews if isinstance(reviews, list) else []:
        match review:
            case {"run_id": str(run_id), "feedback": str(words)}:
                name, run = _case_of(run_id, cases)
                if name:
                    lines = [found.get(name, ""), f"{run}: {words}" if run and words.strip() else words]
                    found[name] = "\n".join(line[:_LONGEST] for line in lines if line.strip())
    own = {case: each[:_LONGEST] for case in cases if isinstance(each := value.get(case), str)}
    digests = value.get(_OUTPUTS)
    known = digests.items() if isinstance(digests, dict) else ()
    return Feedback(found | own, {case: each for case, each in known if isinstance(each, str) and case in cases})


def _case_of(run: str, cases: Collection[str]) -> tuple[str, str]:
    """Split the ID of a run into the case with the longest name and the rest."""
    for case in sorted(cases, key=len, reverse=True):
        if run == case or run.startswith((f"{case}-", f"{case}/")):
            return case, run[len(case) + 1 :]
    return "", ""


def with_words(value: Mapping[str, Any], case: str, words: str, outputs: str, run: str = "") -> dict[str, Any]:
    """Return the value of a file with the words on a case, about outputs with a digest, empty if it is unknown.

    With the ID of a `run` of the case, they are its review as well: skill-creator reads reviews alone, and its viewer
    keeps nothing else when it saves.
    """
    changed = _with_digests({**value, case: words}, {case: outputs})
    reviews = value.get(_REVIEWS, [])
    if not run or not isinstance(reviews, list):
        return changed
    review = {"run_id": run, "feedback": words, "timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    others = [each for each in reviews if not (isinstance(each, dict) and each.get("run_id") == run)]
    return {**changed, _REVIEWS: [*others, review]}


def with_outputs(value: Mapping[str, Any], outputs: Mapping[str, str]) -> dict[str, Any]:
    """Return the value of a file in which the words on each case tell the outputs that they are about.

    `outputs` are the digests of all cases as they are now. They apply to words that a person wrote into the file, which
    tell none.
    """
    given = read_feedback(value, outputs)
    silent = [case for case in given.words if not given.outputs.get(case)]
    return _with_digests(dict(value), {case: outputs[case] for case in silent})


def _with_digests(value: dict[str, Any], digests: Mapping[str, str]) -> dict[str, Any]:
    known = value.get(_OUTPUTS)
    # The digest of other outputs would make new words look like old ones.
    kept = {case: each for case, each in known.items() if case not in digests} if isinstance(known, dict) else {}
    merged = kept | {case: each for case, each in digests.items() if each}
    rest = {name: each for name, each in value.items() if name != _OUTPUTS or not isinstance(each, dict)}
    return {**rest, _OUTPUTS: merged} if merged else rest
