"""Check which relative paths from other servers can safely be written to disk.

Two paths may be the same file on a disk that ignores case or normalizes Unicode, and some names have a meaning: devices
on Windows, and `.git`, whose configuration can make git run programs.
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ORIGIN_FILE", "disk_faults", "fold_path"]

ORIGIN_FILE = ".skillserve-origin.json"
"""The file in a fetched folder that records its origin; hidden, so that no server serves it."""

_WINDOWS = os.name == "nt"

_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\x00-\x1f]|[. ]$')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]) *(?:\..*)?", re.DOTALL)

_GIT_NAMES = frozenset({".git", "git~1"})
# The second is the short 8.3 name of the first on Windows.

_MAX_NAME = 255
# Maximum bytes of one name on nearly every file system.


def disk_faults(paths: Iterable[str], *, windows: bool = _WINDOWS) -> tuple[Diagnostic, ...]:
    """Return a fault for each of a skill's relative paths, separated by `/`, that cannot be written.

    Colliding paths are refused on every system, because the fetched skill may be copied to any disk.
    """
    found: list[Diagnostic] = []
    spelled: dict[str, str] = {}
    files: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        faults = {name: fault for name in path.split("/") if (fault := _name_fault(name, windows=windows))}
        found += [_fault(Reason.UNSUPPORTED_NAME, f"the name {fault}", path) for fault in faults.values()]
        files.add(fold_path(path))
        above = [path[:at] for at, char in enumerate(path) if char == "/"]
        folders.update(map(fold_path, above))
        others = {other for each in (*above, path) if (other := spelled.setdefault(fold_path(each), each)) != each}
        found += [_collision(path, other) for other in sorted(others)]
    found += [_collision(path, "a folder of this name") for path in sorted(files & folders)]
    if fold_path(ORIGIN_FILE) in files | folders:
        found.append(_collision(ORIGIN_FILE, "the record of where the skill came from"))
    return tuple(found)


def fold_path(path: str) -> str:
    """Return a path as a disk sees it that ignores case and normalizes Unicode."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _name_fault(name: str, *, windows: bool) -> str | None:
    if name in {"", ".", ".."} or any(char in name for char in "/\\\0"):
        return "leads elsewhere"
    plain = "".join(char for char in fold_path(name) if unicodedata.category(char) != "Cf").rstrip(". ")
    if plain in _GIT_NAMES:
        return "is git's own, and git runs what it finds there"
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME:
        return f"is longer than {_MAX_NAME} bytes"
    if windows and (_NOT_ON_WINDOWS.search(name) or _DEVICE.fullmatch(name.lower()) or _is_unencodable(name)):
        return "cannot be used on Windows"
    return None


def _is_unencodable(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _collision(path: str, other: str) -> Diagnostic:
    return _fault(Reason.NAME_COLLISION, f"on many disks this is the same as {one_line(other)}", path)


def _fault(code: Reason, message: str, path: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, message, one_line(path))
