"""Forget a secret that slipped into histories, and find out where else in the state directory it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.config.machine import state_home
from skills_core.diagnostics import printable
from skills_core.errors import HistoryError
from skills_core.history.store import existing_histories, folder_of_history, open_history, unreadable_histories
from skills_core.sources import real_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from skills_core.history.forgetting import Secret

__all__ = ["ForgottenIn", "files_with", "forget_in_histories"]

_BLOCK: Final = 1024 * 1024
_HISTORIES: Final = "history"


@dataclass(frozen=True, slots=True)
class ForgottenIn:
    """What was done in the history of `source`: how many commits had the secret in which files, or why it failed."""

    source: Path
    commits: int = 0
    files: tuple[str, ...] = ()
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the object that the command prints."""
        return {
            "source": printable(str(self.source)),
            "commits": self.commits,
            "files": [printable(file) for file in self.files],
            "fault": self.fault or None,
        }


def forget_in_histories(secret: Secret, folders: Collection[Path] = ()) -> list[ForgottenIn]:
    """Remove a secret from all histories of this user, or only from those of these folders; one fault stops none."""
    roots = {real_path(folder.absolute()) for folder in folders}
    found = []
    for each in existing_histories(state_home()):
        if roots and each.root not in roots:
            continue
        try:
            with open_history(each.root, state_home(), work_trees=True) as history:
                commits, files = history.forget(secret)
            found.append(ForgottenIn(each.root, commits, files))
        except HistoryError as error:
            found.append(ForgottenIn(each.root, fault=str(error)))
    unreadable = unreadable_histories(state_home()).items()
    return found + [ForgottenIn(folder, fault=why) for folder, why in unreadable if not roots or _is_of(folder, roots)]


def _is_of(folder: Path, roots: Collection[Path]) -> bool:
    return any(folder_of_history(root, state_home()) == folder for root in roots)


def files_with(secret: Secret) -> list[Path]:
    """Return the other files of the state directory that hold a secret: traces, records of runs, logs, schedules."""
    state = state_home()
    return sorted(file for file in _files(state) if _has(file, secret))


def _files(state: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(state):
        if Path(folder) == state and _HISTORIES in folders:
            folders.remove(_HISTORIES)
        yield from (file for name in names if (file := Path(folder, name)).is_file() and not file.is_symlink())


def _has(file: Path, secret: Secret) -> bool:
    """Tell whether a file holds the secret; one that cannot be read counts, because nobody knows."""
    end = b""
    try:
        with file.open("rb") as opened:
            while block := opened.read(_BLOCK):
                if secret.is_in(end + block):
                    return True
                # It may begin in one block and end in the next; no form of a character has more than six bytes.
                end = (end + block)[-6 * len(secret.text) :]
    except OSError:
        return True
    return False
