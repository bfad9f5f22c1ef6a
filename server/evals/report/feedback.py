"""A person's words on each case: `feedback.json` of an iteration. An empty text means that the case is fine."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from server.evals.report.fields import records, text
from server.evals.report.folder import Folder
from skills_core.disk.files import Location, Reader
from skills_core.disk.writing import write_file
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

__all__ = [
    "FEEDBACK_FILE",
    "FeedbackChangedError",
    "FeedbackError",
    "feedback_version",
    "read_feedback",
    "save_feedback",
]

FEEDBACK_FILE = "feedback.json"


class FeedbackError(SkillsError):
    """Feedback cannot be saved."""


class FeedbackChangedError(FeedbackError):
    """The feedback on a case has changed since it was shown; `current` is what it is."""

    def __init__(self, current: str) -> None:
        """Name what would have been overwritten."""
        super().__init__("the feedback on this case was changed elsewhere, for example in another tab")
        self.current = current


def feedback_version(words: str | None) -> str:
    """Return a text that tells whether feedback has changed; None stands for a case without any."""
    return "" if words is None else sha256(words.encode("utf-8", "replace")).hexdigest()


def read_feedback(value: Any, cases: Collection[str]) -> dict[str, str]:  # noqa: ANN401 - JSON
    """Return the texts by case, from both forms of the file.

    skill-creator keeps a review for each run, whose id begins with the case; the texts of a case's runs are joined.
    """
    if not isinstance(value, dict):
        return {}
    found: dict[str, str] = {}
    for review in records(value.get("reviews")):
        case, run = _case_of(text(review.get("run_id")), cases)
        words = text(review.get("feedback"))
        if case:
            lines = [found.get(case, ""), f"{run}: {words}" if run and words.strip() else words]
            found[case] = "\n".join(line for line in lines if line.strip())
    return found | {case: text(value[case]) for case in cases if isinstance(value.get(case), str)}


def _case_of(run: str, cases: Collection[str]) -> tuple[str, str]:
    """Split the id of a run, such as `eval-0-with_skill`, into the case with the longest name and the rest."""
    for case in sorted(cases, key=len, reverse=True):
        if run == case or run.startswith(f"{case}-"):
            return case, run[len(case) + 1 :]
    return "", ""


def save_feedback(workspace: Path, iteration: str, case: str, words: str) -> None:
    """Write the text of one case into the feedback of an iteration, and keep all others.

    Raises:
        FeedbackError: the existing file is not one of feedback, or the file cannot be written.
    """
    relative = f"{iteration}/{FEEDBACK_FILE}".lstrip("/")
    kept = _existing(workspace, relative)
    content = json.dumps({**kept, case: words}, ensure_ascii=False, indent=2) + "\n"
    try:
        write_file(Location(workspace, relative), content.encode("utf-8", "replace"))
    except SkillsError as error:
        raise FeedbackError(f"the feedback was not saved: {error}") from None


def _existing(workspace: Path, relative: str) -> Mapping[str, Any]:
    with Reader() as reader:
        folder = Folder(workspace, reader)
        value = folder.json(relative)
    if folder.problems or not (value is None or isinstance(value, dict)):
        reason = "; ".join(folder.problems) or f"{relative}: not a JSON object"
        raise FeedbackError(f"the feedback was not saved, because what is there cannot be read: {reason}")
    return value or {}
