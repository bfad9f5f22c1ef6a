"""The change that is being made to a skill, on disk, so that the next process completes or drops it after a crash."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from skills_core.diagnostics import printable
from skills_core.disk.json_files import InvalidJsonError, JsonFile
from skills_core.errors import FileRefusedError, HistoryError

if TYPE_CHECKING:
    from pathlib import Path

PENDING = "pending.json"
"""The name of the file."""


@dataclass(frozen=True, slots=True)
class PendingChange:
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


@dataclass(frozen=True, slots=True)
class PendingFile:
    """The file with the pending change, at `path`."""

    path: Path

    def write(self, pending: PendingChange) -> None:
        """Write the pending change; a crash leaves the file as it was, or complete.

        Raises:
            OSError: the file cannot be written.
        """
        try:
            JsonFile(self.path).write(asdict(pending), durable=True)
        except FileRefusedError as error:
            raise OSError(str(error)) from None

    def read(self) -> PendingChange | None:
        """Return the pending change, None if there is none.

        Raises:
            HistoryError: the file cannot be read, or is damaged.
        """
        try:
            value = JsonFile(self.path).read()
            return None if value is None else PendingChange(**value)
        except (InvalidJsonError, TypeError):
            where = printable(str(self.path))
            raise HistoryError(
                f"{where}: this file is damaged; compare the skill with its history, then remove it"
            ) from None
        except FileRefusedError as error:
            raise HistoryError(str(error)) from None

    def clear(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)
