"""Traces on disk: one JSON file for each run, which only the user can read."""

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
from skills_core.disk.bounded import read_bounded
from skills_core.errors import FileRefusedError, FileUnavailableError, SkillsError
from skills_core.run.durable.leases.files import FileLease, is_held
from skills_core.run.json_codec import to_json
from skills_core.run.ports import Epoch
from skills_core.system_faults import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from skills_core.format.yaml12 import JsonValue
    from skills_core.run.ports import JsonObject

__all__ = ["FencedTraceError", "TraceStore", "UnknownTraceError", "UnreadableTraceError", "epoch_of"]

logger = logging.getLogger(__name__)

MAX_SIZE = 64 * 1024 * 1024
"""Bytes of a file that is read."""

_EPOCH_FIELD = "epoch"
# The field that says which attempt at a run a trace is of.

_PARTIAL_SUFFIX = ".half"
# What is being written.

_STALE_AFTER = 3600 * 10**9
# Nanoseconds after which nobody writes to a file any more.

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class UnknownTraceError(SkillsError):
    """There is no trace of a run of this name."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no trace of a run {run_id[:130]!r} here.")


class UnreadableTraceError(UnknownTraceError):
    """There is a trace of the run, and it cannot be read."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(run_id)
        self.args = (f"The trace of the run {run_id} cannot be read: {why}.",)


class FencedTraceError(SkillsError):
    """The trace of a run is that of a later attempt, by a worker that took the run over."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"The trace of run {run_id[:130]} is left alone: another worker performs the run now.")


def epoch_of(trace: Mapping[str, JsonValue]) -> Epoch | None:
    """Return which attempt at its run a trace is of, None where it does not say."""
    match trace.get(_EPOCH_FIELD):
        case {"recorded": int(recorded), "attempt": int(attempt)}:
            return Epoch(recorded, attempt)
    return None


class TraceStore:
    """The traces in one folder."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read or made yet."""
        self._folder = folder
        self._presence: FileLease | None = None

    def presence(self) -> str | None:
        """Return a name for this process, by which others see whether it is alive; None where it can leave no sign.

        Runs that are recorded have a worker for that; the trace of any other run bears this name.
        """
        with suppress(OSError):
            if self._presence is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._presence = FileLease(self._folder)  # held until the process ends
            return self._presence.worker
        return None

    def is_present(self, name: str) -> bool:
        """Tell whether the process that was given this name is alive."""
        return is_held(self._folder, name)

    def write(self, run_id: str, trace: Mapping[str, JsonValue], epoch: Epoch | None = None) -> None:
        """Write a trace, whole or not at all, in place of an earlier one of the same run.

        With an `epoch`, the trace says so, and one that a later attempt at the run has begun is left as it is.

        Raises:
            FencedTraceError: a later attempt has begun its trace.
            OSError: it cannot be written.
        """
        self._path(run_id)  # before anything is made of a name that is no run's
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

        What an earlier attempt, in a process that was stopped, had half written and compared before this trace stood
        there, would still take its place: it is removed, and the trace written again where it did.

        Raises:
            FencedTraceError: a later attempt has begun its trace.
            OSError: it cannot be written.
        """
        self.write(run_id, trace, epoch)
        if epoch is None:
            return
        for half in self._partial_files(run_id):
            with suppress(OSError):  # it is gone, or a system keeps what is open
                half.unlink()
        if epoch_of(self._content(run_id)) != epoch:
            self.write(run_id, trace, epoch)

    def try_write(
        self, run_id: str, trace: Mapping[str, JsonValue], epoch: Epoch | None = None, *, first: bool = False
    ) -> None:
        """Write a trace, the `first` of its attempt or a further one, if it can be: a full disk must not end a run."""
        try:
            (self.begin if first else self.write)(run_id, trace, epoch)
        except FencedTraceError as error:
            logger.warning("%s", error)
        except OSError as error:
            logger.warning("the trace of run %s cannot be written: %s", run_id, error)

    def _publish(self, half: Path, run_id: str, epoch: Epoch | None) -> None:
        # Compared once the half is there: a later attempt that begins from now on removes the half.
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
        """Return the trace that is there; one that is missing or damaged is an empty one.

        Raises:
            OSError: the system cannot read it now, so it may be that of a later attempt.
        """
        try:
            return self.read(run_id)
        except UnknownTraceError as error:
            if isinstance(error.__cause__, FileUnavailableError):
                raise OSError(error.__cause__.message) from error
            return {}

    def _partial_files(self, run_id: str) -> Iterator[Path]:
        """Yield what is being written of this run, and not of one inside of it."""
        mine = re.compile(rf"{re.escape(run_id)}\.[^.]+{re.escape(_PARTIAL_SUFFIX)}")
        yield from (path for path in list(self._folder.iterdir()) if mine.fullmatch(path.name))

    def read(self, run_id: str) -> JsonObject:
        """Return the trace of a run.

        Raises:
            UnknownTraceError: there is none.
            UnreadableTraceError: its file cannot be read, or holds none.
        """
        path = self._path(run_id)
        try:
            raw = read_bounded(path, MAX_SIZE)
        except FileRefusedError as error:
            raise UnreadableTraceError(run_id, str(error)) from error
        if raw is None:
            raise UnknownTraceError(run_id)
        try:
            trace = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise UnreadableTraceError(run_id, f"{path}: this is no JSON") from error
        if not isinstance(trace, dict):
            raise UnreadableTraceError(run_id, f"{path}: expected a JSON object")
        return {**trace, "run_id": run_id}

    def run_ids(self) -> list[str]:
        """Return the runs that there are traces of, the one that was written last first.

        Raises:
            OSError: the folder of traces cannot be read.
        """
        return [path.stem for _, path in sorted(self._files(), reverse=True)]

    def readable(self, unreadable: Callable[[str], None]) -> dict[str, JsonObject]:
        """Return all traces, the one that was written last first; `unreadable` is told what is wrong with a bad one."""
        traces: dict[str, JsonObject] = {}
        try:
            run_ids = self.run_ids()
        except OSError as error:
            unreadable(f"{printable(str(self._folder))}: traces cannot be read: {words_of(error)}.")
            return traces
        for run_id in run_ids:
            try:
                traces[run_id] = self.read(run_id)
            except UnreadableTraceError as error:
                unreadable(str(error))
            except UnknownTraceError:
                continue  # it was removed just now
        return traces

    def prune(self, keep: int) -> None:
        """Remove all traces but the `keep` that were written last, and what killed processes left half written.

        What cannot be removed stays.
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
