"""The versions of a source as values: its files, links and folders, what differs between two, and commits."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any, Final, TypeAlias

from skills_core.diagnostics import one_line, printable, shortened
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.errors import HistoryError, SkillEditedError

FILE_MODE: Final = 0o644
FOLDER_MODE: Final = 0o755

TEMPORARY: Final = ".skillserve-history-"
"""How the names of files and folders begin that exist only while a change is made."""

# Version control, dependencies and caches, secrets, and what systems, editors and skillserve write for a moment.
_LEFT_OUT = re.compile(
    r"""\.git | git~\d+ | \.(?:hg|svn|jj)
      | node_modules | __pycache__ | \.(?:venv|tox|mypy_cache|pytest_cache|ruff_cache)
      | \.env(?:\..*)?
      | \.DS_Store | Thumbs\.db | desktop\.ini
      | .*~ | \#.*\# | \.\#.* | .*\.sw[op] | 4913 | ___jb_(?:tmp|old)___
      | \.skillserve-.* | \.[0-9a-f]{16}\.part | \.removed-\d+""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_IGNORABLE = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
# Some disks of macOS ignore these characters, so that `.g\u200cit` is `.git` there.


class EntryKind(StrEnum):
    """What an entry is."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file, link or folder: its permission bits, and the git object of its bytes or of the link's target."""

    kind: EntryKind
    mode: int = 0
    blob: str = ""


SourceState: TypeAlias = Mapping[str, TreeEntry]
"""Entries by their paths, relative to the root of the source and separated by `/`. The root itself has no entry."""


def id_of(content: bytes) -> str:
    """Return the name that git gives to these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def is_left_out(name: str) -> bool:
    """Tell whether a name is never recorded; history neither reads, writes nor removes such a file."""
    return _LEFT_OUT.fullmatch(_IGNORABLE.sub("", name).rstrip(" .") or name) is not None


def is_within(path: str, unit: str) -> bool:
    """Tell whether a path is the unit or lies in it; the unit `""` is the whole source."""
    return not unit or path == unit or path.startswith(f"{unit}/")


def part_of(state: SourceState, unit: str) -> dict[str, TreeEntry]:
    """Return the entries of one unit."""
    return {path: entry for path, entry in state.items() if is_within(path, unit)}


def parents_of(path: str) -> list[str]:
    """Return the folders above a path, the outermost first, without the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def changed_units(before: SourceState, after: SourceState) -> tuple[str, ...]:
    """Return the skills that differ: for each changed path the nearest folder with a SKILL.md, otherwise the path."""
    both = before.keys() | after.keys()
    skills = {path.rpartition("/")[0] for path in both if path.rpartition("/")[2] in {MAIN_FILE, MAIN_FILE_LOWERCASE}}
    changed = {path for path in both if before.get(path) != after.get(path)}
    units = {_unit_of(path, skills) for path in changed}
    # The folders above a new skill are part of the same change.
    above = {folder for unit in units for folder in parents_of(unit)}
    return tuple(sorted(units - (above - skills)))


def _unit_of(path: str, skills: set[str]) -> str:
    for folder in (path, *reversed(parents_of(path)), ""):
        if folder in skills:
            return folder
    return path


def disk_mode(mode: int, kind: EntryKind) -> int:
    """Return the permission bits that are recorded; Windows has none."""
    if os.name == "nt":
        return FOLDER_MODE if kind is EntryKind.FOLDER else FILE_MODE
    return mode & 0o777


def require_base(state: Mapping[str, TreeEntry], name: str, base: Mapping[str, bytes]) -> None:
    """Check that files are as a change expects them.

    Raises:
        SkillEditedError: one is not.
    """
    for relative, content in base.items():
        entry = state.get(f"{name}/{relative}" if name else relative)
        if entry is None or entry.blob != id_of(content):
            where = printable(f"{name}/{relative}" if name else relative)
            raise SkillEditedError(f"{where}: was edited meanwhile, so the change is not made")


def set_file(state: dict[str, TreeEntry], name: str, relative: str, blob: str | None) -> None:
    """Set or remove one file of a skill.

    Raises:
        HistoryError: the path leaves the skill, or is one that is never recorded.
    """
    parts = relative.split("/")
    if any(part in {"", ".", ".."} or "\0" in part or is_left_out(part) for part in parts):
        raise HistoryError(f"{relative[:200]!r}: expected the path of a file in the skill's folder")
    path = f"{name}/{relative}" if name else relative
    old = state.get(path)
    if blob is None:
        state.pop(path, None)
        return
    above = [state.get(folder) for folder in parents_of(path)]
    if any(each is not None and each.kind is not EntryKind.FOLDER for each in (*above,)) or (
        old is not None and old.kind is not EntryKind.FILE
    ):
        raise HistoryError(f"{relative[:200]!r}: is a folder or a link, or lies below a link or a file")
    state[path] = TreeEntry(EntryKind.FILE, FILE_MODE if old is None else old.mode, blob)
    add_folders(state, path)


def add_folders(state: dict[str, TreeEntry], path: str) -> None:
    """Add the folders above a path that a state does not have."""
    for folder in parents_of(path):
        state.setdefault(folder, TreeEntry(EntryKind.FOLDER, FOLDER_MODE))


_MAX_COMPARED: Final = 200_000
# Comparing lines may take quadratic time.


def unified_diff(before: SourceState, after: SourceState, read: Callable[[str], bytes]) -> str:
    """Return the differences from one state to another; `read` returns the bytes of an object."""
    lines: list[str] = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old != new:
            lines += _entry_lines(path, old, new, read)
    return "".join(f"{line}\n" for line in lines)


def _entry_lines(
    path: str, old: TreeEntry | None, new: TreeEntry | None, read: Callable[[str], bytes]
) -> Iterator[str]:
    shown = one_line(path)
    if all(each is None or each.kind is EntryKind.FOLDER for each in (old, new)):
        if old is not None and new is not None:
            yield f"mode of {shown}/: {old.mode:04o} -> {new.mode:04o}"
        return
    for each, what in ((old, "-"), (new, "+")):
        if each is not None and each.kind is EntryKind.LINK:
            yield f"{what}{shown} is a link to {one_line(read(each.blob).decode('utf-8', 'replace'))}"
    if old is not None and new is not None and old.kind is new.kind and old.mode != new.mode:
        yield f"mode of {shown}: {old.mode:04o} -> {new.mode:04o}"
    raw = [read(each.blob) if each is not None and each.kind is EntryKind.FILE else b"" for each in (old, new)]
    if raw[0] == raw[1]:
        is_new_or_gone = old is None or new is None
        yield from [f"{'new' if old is None else 'removed'} empty file {shown}"] * (
            is_new_or_gone and not _links(old, new)
        )
        return
    texts = [_text(each) for each in raw]
    if texts[0] is None or texts[1] is None:
        yield f"{shown}: {len(raw[0])} bytes -> {len(raw[1])} bytes, not shown"
        return
    names = (f"a/{shown}" if old else "/dev/null", f"b/{shown}" if new else "/dev/null")
    for line in difflib.unified_diff(_lines(texts[0]), _lines(texts[1]), names[0], names[1], lineterm=""):
        yield line[:1] + one_line(line[1:]).replace("\\t", "\t")


def _links(*entries: TreeEntry | None) -> bool:
    return any(each is not None and each.kind is EntryKind.LINK for each in entries)


def _lines(text: str) -> list[str]:
    """Return the lines; the last one says if it has no end, and each one if it ends as on Windows."""
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]} (no newline at the end)"]


def _text(raw: bytes) -> str | None:
    if len(raw) > _MAX_COMPARED or b"\0" in raw:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


_CAUSE: Final = "Cause"
_TRACE: Final = "Trace-Id"
_RESTORES: Final = "Restores"
_SKILL: Final = "Skill"
_MAX_MESSAGE: Final = 500

BEGINNING: Final = "Begin the history"
"""The message of the first commit."""

BY_HAND: Final = "Edited by hand"
"""The message of commits of edits that skillserve did not make."""


class Cause(StrEnum):
    """Why a commit was made."""

    INITIAL = "initial"
    MANUAL = "manual"
    INIT = "init"
    FIX = "validate-fix"
    DESCRIPTION = "description"
    IMPROVEMENT = "improvement"
    ROLLBACK = "rollback"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class HistoryCommit:
    """One commit: its id, its time with offset, why it was made, and what it says.

    `trace_id` names the run that led to it. `skills` are the changed skills, as paths in the source. `restores` is the
    commit whose version a rollback restored.
    """

    rev: str
    when: str
    cause: str
    message: str
    trace_id: str | None = None
    skills: tuple[str, ...] = ()
    restores: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the object that commands and tools show."""
        return {
            "rev": self.rev,
            "when": self.when,
            "cause": self.cause,
            "message": self.message,
            "trace_id": self.trace_id,
            "skills": [one_line(skill) for skill in self.skills],
            "restores": self.restores,
        }


def message_with_trailers(
    message: str, cause: str, skills: tuple[str, ...], trace_id: str | None = None, restores: str | None = None
) -> bytes:
    """Return the whole message; line ends in the parts are escaped, so that no part can add a trailer."""
    pairs = [(_CAUSE, cause), (_TRACE, trace_id), (_RESTORES, restores)]
    lines = [f"{key}: {one_line(value)}" for key, value in pairs if value]
    # As JSON, every name of a folder stays on its line and can be read back.
    lines += [f"{_SKILL}: {json.dumps(skill)}" for skill in skills]
    summary = shortened(one_line(message), _MAX_MESSAGE) or cause
    return "\n".join([summary, "", *lines, ""]).encode()


def parse_commit(rev: str, message: bytes, seconds: int, offset: int) -> HistoryCommit:
    """Read a commit back; one that has no trailers was made by another program, and counts as manual."""
    head, _, trailers = message.decode("utf-8", "replace").strip().rpartition("\n\n")
    if not head:
        head, trailers = trailers, ""
    found: dict[str, list[str]] = {}
    for line in trailers.splitlines():
        key, _, value = line.partition(": ")
        found.setdefault(key, []).append(value)
    try:
        zone = timezone(timedelta(seconds=offset))
        when = datetime.fromtimestamp(seconds, zone)
    except (ValueError, OverflowError, OSError):
        when = datetime.fromtimestamp(0, UTC)
    return HistoryCommit(
        rev,
        when.isoformat(),
        _first(found, _CAUSE) or Cause.MANUAL,
        head.partition("\n")[0],
        _first(found, _TRACE),
        tuple(_read_name(value) for value in found.get(_SKILL, ())),
        _first(found, _RESTORES),
    )


def _first(found: dict[str, list[str]], key: str) -> str | None:
    return next(iter(found.get(key, ())), None)


def _read_name(value: str) -> str:
    try:
        name = json.loads(value)
    except ValueError:
        return value
    return name if isinstance(name, str) else value
