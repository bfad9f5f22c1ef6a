"""The record of improvements: what was begun after which run, what came of it, and the proposals for a person."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from server.config.machine import state_home
from skills_core.diagnostics import one_line, printable
from skills_core.disk.writing import JsonFile, exclusive
from skills_core.errors import FileRefusedError, SkillsError, system_message
from skills_core.improve.improvement import ImprovementReason, ImprovementStatus

MAX_RECORDS: Final = 500
"""Records to keep; beyond them, the oldest that are not open proposals are removed."""

_REPAIR: Final = "repair or remove the file"
_ID: Final = re.compile(r"[0-9a-f]{8,32}")
_DAY: Final = timedelta(days=1)
_CHANGES: Final = frozenset({ImprovementStatus.IMPROVED, ImprovementStatus.PROPOSED, ImprovementStatus.ACCEPTED})
_FACTS: Final = frozenset(
    {"id", "at", "run_id", "skill", "source", "place", "status", "trace_id", "commit", "measured"}
)
_SHOWN: Final = ("id", "skill", "run_id", "status", "summary", "reason", "corrections", "diff", "commit", "measured")


class UnknownImprovementError(SkillsError):
    """There is no improvement with this id."""


class UnreadableImprovementError(UnknownImprovementError):
    """The record of an improvement exists, but cannot be read; the message says why and what to do."""


class ImprovementRecords:
    """The records in one folder of this user, a JSON file each.

    Methods raise `UnknownImprovementError` if there is no record of an id, `UnreadableImprovementError` if one cannot
    be read, and `OSError` if one cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is created with the first record."""
        self._folder = folder

    @property
    def folder(self) -> Path:
        """The folder of the records."""
        return self._folder

    def work_folder(self, number: str) -> Path:
        """Return the folder for the copies of an improvement; the improvement creates and removes it."""
        return self._folder / "work" / number

    @contextmanager
    def only_one(self, root: Path, place: str) -> Iterator[bool]:
        """Yield True if no other process or task improves this skill until the block ends."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = hashlib.sha256(f"{root}\0{place}".encode()).hexdigest()[:16]
        lock = exclusive(self._folder / f"skill-{key}", 0)
        try:
            lock.__enter__()
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            lock.__exit__(None, None, None)

    def begin(self, run_id: str, skill: str, root: Path, place: str, per_day: int) -> str | ImprovementReason | None:
        """Record that an improvement begins; return its id, why it must not begin, or None if this run had one."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with exclusive(self._folder / "records"):
            known = [self._read(path) for path in self._paths()]
            own = [each for each in known if (each["source"], each["place"]) == (str(root), place)]
            if any(each["run_id"] == run_id for each in own):
                return None
            since = datetime.now(UTC) - _DAY
            if sum(datetime.fromisoformat(each["at"]) > since for each in own) >= per_day:
                return ImprovementReason.TOO_MANY
            number = secrets.token_hex(4)
            record = {
                "id": number,
                "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "run_id": run_id,
                "skill": skill,
                "source": str(root),
                "place": place,
                "status": ImprovementStatus.BEGUN.value,
            }
            self._write(record)
            self._prune()
            return number

    def update(self, number: str, **values: object) -> dict[str, Any]:
        """Set values of a record, and return it."""
        with exclusive(self._folder / "records"):
            record = {**self.get(number), **values}
            self._write(record)
            return record

    def get(self, number: str) -> dict[str, Any]:
        """Return a record by its id."""
        if not _ID.fullmatch(number):
            raise _unknown(number)
        return self._read(self._folder / f"{number}.json")

    def all(self, on_unreadable: Callable[[str], None] = lambda _: None) -> list[dict[str, Any]]:
        """Return all records, the newest first; `on_unreadable` gets a message about each that cannot be read."""
        found = []
        try:
            paths = self._paths()
        except OSError as error:
            on_unreadable(f"{self}: improvements cannot be read: {system_message(error)}.")
            return []
        for path in paths:
            try:
                found.append(self._read(path))
            except UnreadableImprovementError as error:
                on_unreadable(str(error))
            except UnknownImprovementError:
                continue  # it has just been removed
        return sorted(found, key=lambda each: each["at"], reverse=True)

    def _paths(self) -> list[Path]:
        try:
            return [path for path in self._folder.iterdir() if path.suffix == ".json"]
        except FileNotFoundError:
            return []

    def changes_after(self, run_ids: Collection[str]) -> list[dict[str, Any]]:
        """Return the changes that were made or proposed after these runs, the oldest first, without the files."""
        found = (each for each in self.all() if each["run_id"] in run_ids and each["status"] in _CHANGES)
        return [{key: each[key] for key in _SHOWN if each.get(key) is not None} for each in found][::-1]

    def forget(self, has_secret: Callable[[bytes], bool]) -> list[str]:
        """Remove the texts of the improvements that hold a secret, and close their proposals; return their ids."""
        dropped = []
        with ExitStack() as stack:
            if self._folder.is_dir():
                stack.enter_context(exclusive(self._folder / "records"))
            for record in self.all():
                texts = [each for file in record.get("change", {}).values() for each in file.values()]
                if not any(map(has_secret, (json.dumps(record).encode(), *map(base64.b64decode, texts)))):
                    continue
                kept = {key: value for key, value in record.items() if key in _FACTS}
                if kept["status"] == ImprovementStatus.PROPOSED:
                    kept["status"] = ImprovementStatus.REJECTED.value
                self._write({**kept, "summary": "its texts had a secret that was forgotten"})
                dropped.append(str(record["id"]))
        return dropped

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            record = JsonFile(path).read()
        except FileRefusedError as error:
            raise UnreadableImprovementError(f"{error}; {_REPAIR}") from None
        if record is None:
            raise _unknown(path.stem)
        try:
            datetime.fromisoformat(record["at"])
            is_whole = record.keys() >= {"id", "run_id", "skill", "source", "place", "status"}
        except (ValueError, TypeError, KeyError, AttributeError):
            is_whole = False
        if not is_whole:
            shown = printable(str(path))
            raise UnreadableImprovementError(f"{shown}: this is not the record of an improvement; {_REPAIR}")
        found: dict[str, Any] = record
        return found

    def _write(self, record: Mapping[str, Any]) -> None:
        try:
            JsonFile(self._folder / f"{record['id']}.json").write(record)
        except FileRefusedError as error:
            raise OSError(str(error)) from None

    def _prune(self) -> None:
        closed = [each for each in self.all() if each["status"] != ImprovementStatus.PROPOSED]
        for each in closed[MAX_RECORDS:]:
            (self._folder / f"{each['id']}.json").unlink(missing_ok=True)

    def __str__(self) -> str:
        return printable(str(self._folder))


def _unknown(number: str) -> UnknownImprovementError:
    message = f"there is no improvement {number[:40]!r}; `skillserve history propose --all` lists them"
    return UnknownImprovementError(message)


def improvement_records() -> ImprovementRecords:
    """Return the records of improvements of this user."""
    return ImprovementRecords(state_home() / "improvements")


def change_lines(change: Mapping[str, Any]) -> list[str]:
    """Return what a person reads of a change that `changes_after` returned: the facts, the diff, and what to do."""
    number, skill, summary = change["id"], one_line(change["skill"]), one_line(str(change.get("summary", "")))
    if change["status"] == ImprovementStatus.PROPOSED:
        first = f"A change of the skill {skill} is proposed, and not made: {summary}"
        last = f"`skillserve history accept {number}` makes it, `skillserve history reject {number}` drops it."
    else:
        first = f"The skill {skill} was changed: {summary} (improvement {number})"
        last = f"`skillserve rollback {skill}` takes it back."
    return [first, *map(one_line, str(change.get("diff", "")).splitlines()), last]
