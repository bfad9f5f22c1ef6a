"""Save a person's words on a case in `feedback.json`, and tell whether they have changed since they were shown."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from server.evals.report.folder import Folder
from skills_core.disk.files import Location, Reader
from skills_core.disk.json_files import json_bytes
from skills_core.disk.writing import write_file
from skills_core.errors import SkillsError
from skills_core.evals.feedback import FEEDBACK_FILE, with_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "FeedbackChangedError",
    "FeedbackError",
    "feedback_version",
    "save_feedback",
]


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


def save_feedback(workspace: Path, iteration: str, case: str, words: str, outputs: str = "") -> None:
    """Write the words on one case into the feedback of an iteration, and keep all others.

    `outputs` is the digest of the outputs that they are about, empty if it is unknown.

    Raises:
        FeedbackError: the existing file is not one of feedback, or the file cannot be written.
    """
    relative = f"{iteration}/{FEEDBACK_FILE}".lstrip("/")
    kept = _existing(workspace, relative)
    try:
        write_file(Location(workspace, relative), json_bytes(with_words(kept, case, words, outputs)))
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
