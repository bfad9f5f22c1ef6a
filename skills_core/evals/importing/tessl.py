"""Read the scenarios of tessl: folders with a `task.md` and a `criteria.json`.

The form is that of tessl's documentation, "Evaluate skill quality using scenarios", and of public sets: a weighted
checklist, and a folder `inputs` with the files of the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skills_core.evals.importing.found import ForeignCase, Found
from skills_core.evals.importing.sources import ForeignFileError, joined, mappings, text

if TYPE_CHECKING:
    from skills_core.evals.importing.sources import Sources

TASK: Final = "task.md"
CRITERIA: Final = "criteria.json"
_INPUTS: Final = "inputs"


def read_scenario(sources: Sources, folder: str, found: Found) -> None:
    """Add the scenario in a folder.

    Raises:
        ForeignFileError: one of its two files cannot be read.
    """
    criteria = sources.document(joined(folder, CRITERIA))
    place = folder or TASK
    case = ForeignCase(place, sources.text(joined(folder, TASK)).strip(), folder.rpartition("/")[2])
    listed = list(mappings(criteria.get("checklist")))
    if not listed:
        raise ForeignFileError(f"{joined(folder, CRITERIA)}: expected a `checklist` of criteria")
    for _, each in listed:
        statement = text(each.get("description")) or text(each.get("name"))
        case.judged(statement, denied=each.get("failure_check") is True)
    found.remark("each assertion counts the same: weights and thresholds are left out")
    inputs = joined(folder, _INPUTS)
    complete = True
    for path in sources.below(inputs):
        raw = sources.input_file(found, path, place)
        complete &= raw is not None
        if raw is not None:
            # The task names them with the folder.
            case.files[path.removeprefix(f"{folder}/") if folder else path] = raw
    if complete:
        found.add(case)
    else:
        found.lose("cases with input files that cannot be carried over", place)
