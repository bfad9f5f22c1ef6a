"""Compare `skillserve validate --strict` with the reference validator of the format, on the same skills.

Each case states the expected result of both validators; any other result of either is a fault.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conformance.outcome import Outcome
from conformance.parity_cases import CASES, Difference, generated
from conformance.peers import issues_of
from conformance.processes import REPOSITORY, CheckError, Place, run, skillserve, tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from conformance.parity_cases import Case

__all__ = ["compare_validators"]

GENERATED = 450

DOCUMENT = REPOSITORY / "docs" / "explanation" / "conformance.md"


async def compare_validators(place: Place) -> Outcome:
    """Run both validators on every case.

    Raises:
        CheckError: A validator printed no JSON.
    """
    cases = (*CASES, *generated(GENERATED))
    folders = {case: _write(case, place.folder("parity")) for case in cases}
    theirs = await issues_of(folders.values(), place)
    ours = await _faults_of(folders.values(), place)
    document = DOCUMENT.read_text(encoding="utf-8")
    faults = [f"{DOCUMENT.name} does not explain {why.value!r}" for why in Difference if why.value not in document]
    good = 0
    for case, folder in folders.items():
        found = [
            *_mismatches("skillserve", ours[str(folder)], expected=case.valid),
            *_mismatches("the reference", theirs[str(folder)], expected=case.reference),
        ]
        good += not found
        faults += [f"{case.name}: {each}" for each in found]
    return Outcome(good, len(cases), tuple(faults))


def _mismatches(validator: str, issues: list[str], *, expected: bool) -> Iterator[str]:
    if expected and issues:
        yield f"{validator} rejects it: {issues[0]:.160}"
    elif not expected and not issues:
        yield f"{validator} accepts it"


def _write(case: Case, root: Path) -> Path:
    folder = root / case.name / case.folder
    folder.mkdir(parents=True)
    file = folder / case.file
    if case.link:
        elsewhere = root / case.name / "elsewhere.md"
        elsewhere.write_bytes(case.content)
        file.symlink_to(elsewhere)
    else:
        file.write_bytes(case.content)
    return folder


async def _faults_of(folders: Iterable[Path], place: Place) -> dict[str, list[str]]:
    """Return the codes for which `validate --strict` finds each folder invalid."""
    finished = await run(skillserve("validate", list(folders), "--strict", "--json"), place)
    try:
        results = json.loads(finished.out)["results"]
    except ValueError as error:
        raise CheckError(f"skillserve validate ended with {finished.code}: {tail(finished.err)}") from error
    return {
        result["path"]: [] if result["valid"] else [note["code"] for note in result["diagnostics"]]
        for result in results
    }
