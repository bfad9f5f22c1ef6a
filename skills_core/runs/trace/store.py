"""Traces on disk: one JSON file per run, readable only by its user."""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.diagnostics import printable
from skills_core.disk.files import read_bounded
from skills_core.disk.writing import InvalidJsonError, parse_json
from skills_core.errors import FileRefusedError, FileUnavailableError, SkillsError, system_message
from skills_core.runs.durable.leases import FileLease, is_held
from skills_core.runs.json_codec import to_json
from skills_core.runs.ports import Epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from skills_core.format.yaml12 import JsonObject, JsonValue

__all__ = ["FencedTraceError", "TraceStore", "UnknownTraceError", "UnreadableTraceError", "epoch_of"]

logger = logging.getLogger(__name__)

MAX_SIZE = 64 * 1024 * 1024
"""Largest trace that is read, in bytes."""

_EPOCH_FIELD = "epoch"
# The field of a trace that holds the fencing token of its attempt.

_PARTIAL_SUFFIX = ".half"
# Files that are being written.

_STALE_AFTER = 3600 * 10**9
# Nanoseconds after which a partial file counts as abandoned.

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class UnknownTraceError(SkillsError):
    """There is no trace of this run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no trace of a run {run_id[:130]!r} here.")


class UnreadableTraceError(UnknownTraceError):
    """The trace of the run exists but cannot be read."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(run_id)
        self.args = (f"The trace of the run {run_id} cannot be read: {why}.",)


class FencedTraceError(SkillsError):
    """The trace belongs to a later attempt, by a worker that took over the run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"The trace of run {run_id[:130]} is left alone: another worker performs the run now.")


def epoch_of(trace: Mapping[str, JsonValue]) -> Epoch | None:
    """Return the fencing token of the attempt that wrote a trace, None if it has none."""
    match trace.get(_EPOCH_FIELD):
        case {"recorded": int(recorded), "attempt": int(attempt)}:
            return Epoch(recorded, attempt)
    return None


class TraceStore:
    """The traces in one folder."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is created when the first trace is written."""
        self._folder = folder
        self._presence: FileLease | None = None

    def presence(self) -> str | None:
        """Return a name by which other processes can check whether this one is alive; None if it cannot lock a file.

        Recorded runs have a worker for that; the trace of any other run carries this name.
        """
        with suppress(OSError):
            if self._presence is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._presence = FileLease(self._folder)  # locked until the process ends
            return self._presence.worker
        return None

    def is_present(self, name: str) -> bool:
        """Tell whether the process with this presence name is alive."""
        return is_held(self._folder, name)

    def write(self, run_id: str, trace: Mapping[str, JsonValue], epoch: Epoch | None = None) -> None:
        """Write a trace atomically, replacing an earlier one of the same run.

        With an `epoch`, the trace records it, and never replaces the trace of a later attempt.

        Raises:
            FencedTraceError: a later attempt has written its trace.
            OSError: the trace cannot be written.
        """
        self._path(run_id)  # validates the run id before a file is created
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole = trace if epoch is None else {**trace, _EPOCH_FIELD: to_json(epoch)}
        descriptor, name = tempfile.mkstemp(_PARTIAL_SUFFIX, f"{run_id}.", self._folder)
        half = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(whole, file, ensure_ascii=False, indent=1)
            self._publish(half, run_id, epoch)
        except (OSError, FencedTraceError):
            half.unlink(missing_ok=True)
            raise

    def begin(self, run_id: str, trace: Mapping[str, JsonValue], epoch: Epoch | None = None) -> None:
        """Write the first trace of an attempt at a run, so that no earlier attempt can replace it from now on.

        An earlier attempt, in a suspended process, may have written its partial file and passed the comparison before
        this trace existed, and would still replace it. So its partial files are removed, and the trace is written
        again if it was replaced meanwhile.

        Raises:
            FencedTraceError: a later attempt has written its trace.
            OSError: the trace cannot be written.
        """
        self.write(run_id, trace, epoch)
        if epoch is None:
            return
        for half in self._partial_files(run_id):
            with suppress(OSError):  # it is gone, or the system keeps open files
                half.unlink()
        if epoch_of(self._content(run_id)) != epoch:
            self.write(run_id, trace, epoch)

    def try_write(
        self, run_id: str, trace: Mapping[str, JsonValue], epoch: Epoch | None = None, *, first: bool = False
    ) -> None:
        """Write a trace, the `first` of its attempt or a later one; log failures, as a full disk must not end a run."""
        try:
            (self.begin if first else self.write)(run_id, trace, epoch)
        except FencedTraceError as error:
            logger.warning("%s", error)
        except OSError as error:
            logger.warning("the trace of run %s cannot be written: %s", run_id, error)

    def _publish(self, half: Path, run_id: str, epoch: Epoch | None) -> None:
        # Compare once the partial file exists: a later attempt that begins from now on removes it.
        if epoch is not None and self._is_superseded(run_id, epoch):
            raise FencedTraceError(run_id)
        try:
            half.replace(self._path(run_id))
        except FileNotFoundError:
            raise FencedTraceError(run_id) from None

    def _is_superseded(self, run_id: str, epoch: Epoch) -> bool:
        there = epoch_of(self._content(run_id))
        return there is not None and there.recorded == epoch.recorded and there.attempt > epoch.attempt

    def _content(self, run_id: str) -> JsonObject:
        """Return the stored trace; empty if it is missing or damaged.

        Raises:
            OSError: it cannot be read now, so it may belong to a later attempt.
        """
        try:
            return self.read(run_id)
        except UnknownTraceError as error:
            if isinstance(error.__cause__, FileUnavailableError):
                raise OSError(error.__cause__.message) from error
            return {}

    def _partial_files(self, run_id: str) -> Iterator[Path]:
        """Yield the partial files of this run, without those of nested runs."""
        mine = re.compile(rf"{re.escape(run_id)}\.[^.]+{re.escape(_PARTIAL_SUFFIX)}")
        yield from (path for path in list(self._folder.iterdir()) if mine.fullmatch(path.name))

    def read(self, run_id: str) -> JsonObject:
        """Return the trace of a run.

        Raises:
            UnknownTraceError: there is none.
            UnreadableTraceError: its file cannot be read, or holds no trace.
        """
        path = self._path(run_id)
        try:
            raw = read_bounded(path, MAX_SIZE)
        except FileRefusedError as error:
            raise UnreadableTraceError(run_id, str(error)) from error
        if raw is None:
            raise UnknownTraceError(run_id)
        try:
            trace = parse_json(raw, str(path))
        except InvalidJsonError as error:
            raise UnreadableTraceError(run_id, f"{path}: the file is not JSON") from error
        if not isinstance(trace, dict):
            raise UnreadableTraceError(run_id, f"{path}: expected a JSON object")
        return {**trace, "run_id": run_id}

    def run_ids(self) -> list[str]:
        """Return the ids of the runs with traces, the last written first.

        Raises:
            OSError: the folder of traces cannot be read.
        """
        return [path.stem for _, path in sorted(self._files(), reverse=True)]

    def readable(self, unreadable: Callable[[str], None]) -> dict[str, JsonObject]:
        """Return all traces, the last written first; call `unreadable` with a message for each that cannot be read."""
        traces: dict[str, JsonObject] = {}
        try:
            run_ids = self.run_ids()
        except OSError as error:
            unreadable(f"{printable(str(self._folder))}: traces cannot be read: {system_message(error)}.")
            return traces
        for run_id in run_ids:
            try:
                traces[run_id] = self.read(run_id)
            except UnreadableTraceError as error:
                unreadable(str(error))
            except UnknownTraceError:
                continue  # it has just been removed
        return traces

    def prune(self, keep: int) -> None:
        """Remove all traces but the `keep` last written, and partial files of killed processes.

        Files that cannot be removed stay.
        """
        abandoned = time.time_ns() - _STALE_AFTER
        with suppress(OSError):
            left = [path for written, path in self._files(_PARTIAL_SUFFIX) if written < abandoned]
            for path in (*left, *(path for _, path in sorted(self._files(), reverse=True)[keep:])):
                with suppress(OSError):
                    path.unlink()

    def _files(self, suffix: str = ".json") -> Iterator[tuple[int, Path]]:
        with suppress(FileNotFoundError):
            for path in list(self._folder.iterdir()):
                if path.suffix == suffix and _RUN_ID.fullmatch(path.stem):
                    with suppress(FileNotFoundError):
                        yield path.stat().st_mtime_ns, path

    def _path(self, run_id: str) -> Path:
        if not _RUN_ID.fullmatch(run_id):
            raise UnknownTraceError(run_id)
        return self._folder / f"{run_id}.json"
