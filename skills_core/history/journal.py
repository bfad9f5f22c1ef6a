"""The change that is being made to a skill, on disk, so that the next process completes or drops it after a crash."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from skills_core.diagnostics import printable
from skills_core.errors import HistoryError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PENDING", "Journal", "Pending"]

PENDING = "pending.json"
"""The name of the file."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A change that was begun: from the commit `head` to the tree `tree`, in one unit, with the message of its commit.

    With `staging` the new folder is written there first; `inode` is its number once it is complete, so that it is known
    again in the place of the old one.
    """

    unit: str
    head: str
    tree: str
    message: str
    staging: str | None = None
    inode: int | None = None


class Journal:
    """The file with the pending change."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self._path = path

    def write(self, pending: Pending) -> None:
        """Write the pending change; a crash leaves the file as it was, or complete."""
        beside = self._path.with_name(f"{self._path.name}.new")
        with beside.open("w", encoding="ascii") as file:
            json.dump(asdict(pending), file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)

    def read(self) -> Pending | None:
        """Return the pending change, None if there is none.

        Raises:
            HistoryError: the file is damaged.
        """
        try:
            text = self._path.read_text(encoding="ascii")
        except FileNotFoundError:
            return None
        try:
            return Pending(**json.loads(text))
        except (ValueError, TypeError):
            where = printable(str(self._path))
            raise HistoryError(
                f"{where}: this file is damaged; compare the skill with its history, then remove it"
            ) from None

    def clear(self) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            self._path.unlink()
