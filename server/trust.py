"""Which projects the user trusts: their skills reach a model, and a repository may come from anybody.

One file in the user's configuration holds the folders, each with all that is below it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from skills_core.errors import SkillsError
from skills_core.system_faults import is_passing, words_of

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
            match json.loads(self.path.read_text(encoding="utf-8")):
                case {"version": 1, "trusted": list(folders)} if all(isinstance(each, str) for each in folders):
                    return tuple(sorted(map(Path, folders)))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            message = f"{self.path}: cannot be read ({words_of(error)}); until it can, no further folder is trusted"
            raise TrustError(message, unread=is_passing(error)) from None
        except (ValueError, RecursionError):
            pass
        message = "this is no list of trusted folders, so none is trusted; remove it and run `skillserve trust` again"
        raise TrustError(f"{self.path}: {message}")

    def add(self, folder: Path) -> None:
        """Trust a folder and all that is below it.

        Raises:
            TrustError: the file cannot be understood or written.
        """
        self._write({*self.folders(), folder.resolve()})

    def remove(self, folder: Path) -> bool:
        """Trust a folder no more, and tell whether it was trusted by itself.

        Raises:
            TrustError: the file cannot be understood or written.
        """
        folders = set(self.folders())
        known = folder.resolve() in folders
        if known:
            self._write(folders - {folder.resolve()})
        return known

    def _write(self, folders: set[Path]) -> None:
        import tempfile  # noqa: PLC0415 - a start reads alone

        text = json.dumps({"version": _VERSION, "trusted": sorted(map(str, folders))}, indent=2) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".trust-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            # A reader sees the old list or the new one.
            Path(temporary).replace(self.path)
        except OSError as error:
            raise TrustError(f"{self.path}: cannot be written: {(error.strerror or str(error)).lower()}") from None
