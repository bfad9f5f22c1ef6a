"""The folder with all histories: one for each source, found by the path of the source."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import printable
from skills_core.disk.sources import real_path
from skills_core.disk.writing import JsonFile
from skills_core.errors import FileRefusedError, HistoryError
from skills_core.history.changes import PENDING
from skills_core.installation import extra_advice, missing_modules

if TYPE_CHECKING:
    from skills_core.history.history import History


def work_tree_of(folder: Path) -> Path | None:
    """Return the folder with the user's repository that a folder is, or is in; None if there is none.

    A `.git` of any kind counts: the folder of a repository, the file of a linked work tree or a submodule, and one that
    is damaged. So does a bare repository.
    """
    for place in (folder, *folder.parents):
        if os.path.lexists(place / ".git") or _is_bare(place):
            return place
    return None


def _is_bare(place: Path) -> bool:
    return all(os.path.lexists(place / name) for name in ("HEAD", "objects", "refs"))


_SOURCE: Final = "source.json"
_DAMAGED: Final = "this file is damaged, so it is unknown what the history is of and leaves out; repair or remove it"
_PRIVATE: Final = 0o700


def open_history(
    root: Path,
    state: Path,
    *,
    work_trees: bool = False,
    create: bool = True,
    left_out: frozenset[str] = frozenset(),
) -> History:
    """Open the history of the source at `root`, which lies below the folder `state`; create it if there is none.

    A source in a git work tree of the user is refused unless `work_trees` is set. The user's repository is never
    written in either case. Files with the names `left_out` are not recorded, then and in all that follows.

    Raises:
        HistoryError: there is none and `create` is false, the source is refused, the extra `history` is not installed,
            or the folder cannot be written or belongs to another user.
    """
    root = real_path(root)
    where = printable(str(root))
    if not create and not has_history(root, state):
        raise HistoryError(f"{where}: no history is kept of this folder; name it in the setting history.sources")
    if not work_trees and (place := work_tree_of(root)) is not None:
        raise HistoryError(
            f"{where}: this folder is in your git repository {printable(str(place))}, so no history is kept of it; to "
            "keep one beside yours, set history.work_trees"
        )
    if real_path(state).is_relative_to(root):
        raise HistoryError(
            f"{where}: this folder contains its own history ({printable(str(state))}); name a folder in it"
        )
    try:
        from skills_core.history.history import History  # noqa: PLC0415 - the extra may be missing
    except ImportError as error:
        raise HistoryError(no_extra()) from error
    folder = folder_of_history(root, state)
    try:
        for each in (state, folder.parent, folder):
            _make_private(each, own=each != state)
        left_out = _write_source(folder, root, left_out)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise HistoryError(f"{printable(str(folder))}: the history cannot be written: {why}") from error
    return History(root, folder, work_trees=work_trees, left_out=left_out)


def no_extra() -> str:
    """Return that histories need the extra `history`, and how to install it."""
    return f"Histories need the extra `history`; {extra_advice('history')}"


def is_available() -> bool:
    """Tell whether the extra `history` is installed, without importing it."""
    return not missing_modules("history")


def has_history(root: Path, state: Path) -> bool:
    """Tell whether the source at `root` has a history."""
    return (folder_of_history(real_path(root), state) / _SOURCE).is_file()


def is_interrupted(root: Path, state: Path) -> bool:
    """Tell whether a crash interrupted a change in the source at `root`."""
    return (folder_of_history(real_path(root), state) / PENDING).exists()


def existing_histories(state: Path) -> dict[Path, Path]:
    """Return the folders of all histories by the roots of their sources, in the order of these."""
    return dict(sorted((root, folder) for folder, root in _roots_by_folder(state) if isinstance(root, Path)))


def unreadable_histories(state: Path) -> dict[Path, str]:
    """Return the folders of histories whose source cannot be read, each with the reason."""
    return {folder: root for folder, root in _roots_by_folder(state) if isinstance(root, str)}


def _roots_by_folder(state: Path) -> Iterator[tuple[Path, Path | str]]:
    """Yield the folder of each history with the root of its source, or why that cannot be read."""
    with suppress(FileNotFoundError):
        for folder in sorted((state / "history").iterdir()):
            try:
                if (value := _source_file(folder).read()) is not None:
                    yield folder, Path(value["root"])
            except FileRefusedError as error:
                yield folder, str(error)
            except (KeyError, TypeError):
                yield folder, f"{printable(str(folder / _SOURCE))}: {_DAMAGED}"


def move_history(old: Path, new: Path, state: Path) -> None:
    """Let the history of a source that was moved from `old` go on at `new`.

    Raises:
        HistoryError: `old` has no history, `new` has one, or the folder cannot be renamed.
    """
    # The old folder no longer exists, so its links cannot be resolved.
    known = existing_histories(state)
    before = known.get(old.absolute()) or known.get(real_path(old))
    new = real_path(new)
    if before is None:
        raise HistoryError(f"{printable(str(old))}: no history is kept of this folder")
    if has_history(new, state):
        raise HistoryError(f"{printable(str(new))}: this folder has a history of its own, which would be lost")
    target = folder_of_history(new, state)
    try:
        before.rename(target)
        _write_source(target, new)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise HistoryError(f"{printable(str(before))}: the history cannot be moved: {why}") from error


def folder_of_history(root: Path, state: Path) -> Path:
    """Return the folder for the history of the source at `root`, whether it exists or not."""
    short = re.sub(r"[^A-Za-z0-9_-]+", "-", root.name)[:40].strip("-") or "source"
    return state / "history" / f"{short}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"


def _make_private(folder: Path, *, own: bool) -> None:
    """Create a folder for this user alone; a folder of history that exists loses the rights of others.

    Raises:
        OSError: it cannot be created, or belongs to another user.
    """
    folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    if not own or os.name == "nt":
        return
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(1, "it is a link, or belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(_PRIVATE)


def _write_source(folder: Path, root: Path, left_out: frozenset[str] = frozenset()) -> frozenset[str]:
    """Write which source a history is of, and return the names that it leaves out, those of before included.

    Raises:
        HistoryError: the file cannot be read or written, or is damaged.
    """
    file = _source_file(folder)
    try:
        if (known := file.read()) is not None:
            left_out |= frozenset(map(str, known.get("left_out", ())))
        value = {"root": str(root), **({"left_out": sorted(left_out)} if left_out else {})}
        # Threads and processes may do this at the same time.
        if value != known:
            file.write(value)
    except (AttributeError, TypeError):
        raise HistoryError(f"{printable(str(file.path))}: {_DAMAGED}") from None
    except FileRefusedError as error:
        raise HistoryError(str(error)) from None
    return left_out


def _source_file(folder: Path) -> JsonFile:
    return JsonFile(folder / _SOURCE)
