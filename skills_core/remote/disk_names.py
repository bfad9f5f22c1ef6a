"""Which relative paths can be written to a disk without becoming another file there, or more than a file.

Names come from other servers. Two paths may be one on a disk that folds case or normalises, and some names mean
something to the system or to tools: devices on Windows, `.git` to git, which runs what its configuration names.
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ORIGIN_FILE", "disk_faults", "folded"]

ORIGIN_FILE = ".skillserve-origin.json"
"""Where a folder that was fetched says from where; hidden, so that no server serves it."""

_WINDOWS = os.name == "nt"

_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\x00-\x1f]|[. ]$')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]) *(?:\..*)?", re.DOTALL)

_OF_GIT = frozenset({".git", "git~1"})
# The second is what Windows calls the first for programs of the last century.

_MAX_NAME = 255
# Bytes of one name, on nearly every file system.


def disk_faults(paths: Iterable[str], *, windows: bool = _WINDOWS) -> tuple[Diagnostic, ...]:
    """Say which of the relative paths of one skill cannot be written, each separated by `/`.

    Two that a disk may take for one are refused on every system: whoever fetched the skill may copy it anywhere.
    """
    found: list[Diagnostic] = []
    spelled: dict[str, str] = {}
    files: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        faults = {name: fault for name in path.split("/") if (fault := _name_fault(name, windows=windows))}
        found += [_fault(Reason.UNSUPPORTED_NAME, f"the name {fault}", path) for fault in faults.values()]
        files.add(folded(path))
        above = [path[:at] for at, char in enumerate(path) if char == "/"]
        folders.update(map(folded, above))
        others = {other for each in (*above, path) if (other := spelled.setdefault(folded(each), each)) != each}
        found += [_collision(path, other) for other in sorted(others)]
    found += [_collision(path, "a folder of this name") for path in sorted(files & folders)]
    if folded(ORIGIN_FILE) in files | folders:
        found.append(_collision(ORIGIN_FILE, "the record of where the skill came from"))
    return tuple(found)


def folded(path: str) -> str:
    """Return what a path is to a disk that knows neither case nor spellings of one letter."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _name_fault(name: str, *, windows: bool) -> str | None:
    if name in {"", ".", ".."} or any(char in name for char in "/\\\0"):
        return "leads elsewhere"
    plain = "".join(char for char in folded(name) if unicodedata.category(char) != "Cf").rstrip(". ")
    if plain in _OF_GIT:
        return "is git's own, and git runs what it finds there"
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME:
        return f"is longer than {_MAX_NAME} bytes"
    if windows and (_NOT_ON_WINDOWS.search(name) or _DEVICE.fullmatch(name.lower()) or _is_no_text(name)):
        return "cannot be used on Windows"
    return None


def _is_no_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _collision(path: str, other: str) -> Diagnostic:
    return _fault(Reason.NAME_COLLISION, f"on many disks this is the same as {one_line(other)}", path)


def _fault(code: Reason, message: str, path: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, message, one_line(path))
