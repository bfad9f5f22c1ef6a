"""Which projects the user trusts: their skills reach a model, and a repository may come from anybody.

One file in the user's configuration holds the folders, each with all that is below it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.disk.bounded import read_bounded
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.system_faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TrustError", "TrustFile"]

_VERSION = 1


class TrustError(SkillsError):
    """The file cannot be read or written; `unread` tells that the system may be able to read it later."""

    def __init__(self, message: str, *, unread: bool = False) -> None:
        super().__init__(message)
        self.unread = unread


class TrustFile:
    """The folders that are trusted, on disk; a missing file is an empty one."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self.path = path

    def folders(self) -> tuple[Path, ...]:
        """Return the folders in the order of their names.

        Raises:
            TrustError: the file is there and cannot be read or understood.
        """
        try:
            raw = read_bounded(self.path)
        except FileRefusedError as error:
            if error.fault is Fault.PASSING:
                raise TrustError(f"{error}; until it can be read, no further folder is trusted", unread=True) from None
            raise TrustError(f"{error}; no folder is trusted: remove it and run `skillserve trust` again") from None
        if raw is None:
            return ()
        try:
            match json.loads(raw.decode("utf-8")):
                case {"version": 1, "trusted": list(folders)} if all(isinstance(each, str) for each in folders):
                    return tuple(sorted(map(Path, folders)))
        except (ValueError, RecursionError):
            pass
        message = "this is no list of trusted folders, so none is trusted; remove it and run `skillserve trust` again"
        raise TrustError(f"{self.path}: {message}")

    def add(self, folder: Path) -> None:
        """Trust a folder and all that is below it.

        Raises:
            TrustError: the file cannot be understood or written.
        """
        self._change(lambda folders: folders | {folder.resolve()})

    def remove(self, folder: Path) -> bool:
        """Trust a folder no more, and tell whether it was trusted by itself.

        Raises:
            TrustError: the file cannot be understood or written.
        """
        before = self._change(lambda folders: folders - {folder.resolve()})
        return folder.resolve() in before

    def _change(self, change: Callable[[frozenset[Path]], frozenset[Path]]) -> frozenset[Path]:
        """Replace the list by what `change` makes of it, and return it as it was; no other process comes in between."""
        from skills_core.disk.files import Location  # noqa: PLC0415 - a start reads alone
        from skills_core.disk.locks import exclusive  # noqa: PLC0415
        from skills_core.disk.writing import write_file  # noqa: PLC0415

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(self.path):
                before = frozenset(self.folders())
                after = change(before)
                if after != before:
                    text = json.dumps({"version": _VERSION, "trusted": sorted(map(str, after))}, indent=2) + "\n"
                    # People keep their settings elsewhere and link to them: the link stays.
                    place = self.path.resolve()
                    # A reader sees the old list or the new one.
                    write_file(Location(place.parent, place.name), text.encode("utf-8"), 0o600)
        except FileRefusedError as error:
            raise TrustError(f"{self.path}: cannot be written: {error.message}") from None
        except OSError as error:
            raise TrustError(f"{self.path}: cannot be written: {(error.strerror or str(error)).lower()}") from None
        return before
