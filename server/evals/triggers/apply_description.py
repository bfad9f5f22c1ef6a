"""Write an adopted description into the SKILL.md of the skill, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.history.histories import recorded_change
from skills_core.authoring.description import with_description
from skills_core.disk.files import Location, read_file
from skills_core.disk.folders import MAIN_FILE
from skills_core.disk.writing import write_file
from skills_core.errors import SkillsError
from skills_core.evals.triggers.revision import plain_description
from skills_core.history.commits import Cause
from skills_core.loading.loader import MAX_MAIN_SIZE
from skills_core.single_skill import read_skill

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["NotAppliedError", "apply_description"]


class NotAppliedError(SkillsError):
    """No description was written; the message says why."""


def apply_description(folder: Path, found: Mapping[str, Any]) -> str:
    """Write the description that the results `found` adopted; return it.

    Raises:
        NotAppliedError: none was adopted, or the skill has another description than the one that was tested.
        InvalidSkillError: the skill cannot be read.
        DescriptionError: the description cannot be replaced.
        FileRefusedError: the file cannot be read or written.
        HistoryError: the source has a history, and the change cannot be recorded.
    """
    decision = found.get("decision")
    if not isinstance(decision, dict):
        raise NotAppliedError("there is no finished optimization to apply; run `skillserve triggers … --optimize`")
    if decision.get("adopted") is not True:
        raise NotAppliedError(f"nothing is applied: {decision.get('reason')}")
    description = str(decision.get("description") or "")
    if description != plain_description(description):
        raise NotAppliedError("nothing is applied: the description has markup, line breaks or hidden characters")
    current = read_skill(folder).description
    if current == description:
        return description
    if current != found.get("description"):
        raise NotAppliedError(
            "the description of the skill is not the one that was tested any more; run --optimize again"
        )
    main = Location(folder.resolve(), MAIN_FILE)
    raw, _ = read_file(main, MAX_MAIN_SIZE)
    with recorded_change([folder], Cause.DESCRIPTION, "Apply the description that trigger tests chose"):
        write_file(main, with_description(raw, description))
    return description
