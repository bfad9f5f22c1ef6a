"""The list of projects that the user trusts: only their skills reach a model, because a repository may be hostile.

One file in the user's configuration lists trusted folders; each entry includes all folders below it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.disk.writing import InvalidJsonError, JsonFile
from skills_core.errors import Fault, FileRefusedError, SkillsError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TrustError", "TrustFile"]

_VERSION = 1


class TrustError(SkillsError):
    """The file cannot be read or written; `unread` is true if reading it may succeed later."""

    def __init__(self, message: str, *, unread: bool = False) -> None:
        super().__init__(message)
        self.unread = unread


class TrustFile:
    """The file of trusted folders; a missing file is an empty list."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self.path = path
        self._file = JsonFile(path)

    def folders(self) -> tuple[Path, ...]:
        """Return the trusted folders, sorted by path.

        Raises:
            TrustError: the file exists, but cannot be read or is invalid.
        """
        try:
            value = self._file.read()
        except InvalidJsonError:
            value = {}
        except FileRefusedError as error:
            if error.fault is Fault.TRANSIENT:
                raise TrustError(f"{error}; until it can be read, no further folder is trusted", unread=True) from None
            raise TrustError(f"{error}; no folder is trusted: remove it and run `skillserve trust` again") from None
        match value:
            case None:
                return ()
            case {"version": 1, "trusted": list(folders)} if all(isinstance(each, str) for each in folders):
                return tuple(sorted(map(Path, folders)))
        message = (
            "this is not a list of trusted folders, so none is trusted; remove it and run `skillserve trust` again"
        )
        raise TrustError(f"{self.path}: {message}")

    def add(self, folder: Path) -> None:
        """Trust a folder and all folders below it.

        Raises:
            TrustError: the file is invalid, or cannot be written.
        """
        self._change(lambda folders: folders | {folder.resolve()})

    def remove(self, folder: Path) -> bool:
        """Remove a folder from the list; return whether the list contained it.

        Raises:
            TrustError: the file is invalid, or cannot be written.
        """
        before = self._change(lambda folders: folders - {folder.resolve()})
        return folder.resolve() in before

    def _change(self, change: Callable[[frozenset[Path]], frozenset[Path]]) -> frozenset[Path]:
        """Apply `change` to the list under a lock between processes; return the list as it was before."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._file.locked():
                before = frozenset(self.folders())
                after = change(before)
                if after != before:
                    self._file.write({"version": _VERSION, "trusted": sorted(map(str, after))})
        except FileRefusedError as error:
            raise TrustError(f"{self.path}: cannot be written: {error.message}") from None
        except OSError as error:
            raise TrustError(f"{self.path}: cannot be written: {(error.strerror or str(error)).lower()}") from None
        return before
