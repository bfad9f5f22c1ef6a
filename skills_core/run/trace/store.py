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

from skills_core.disk.bounded import read_bounded
from skills_core.errors import FileRefusedError, SkillsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skills_core.format.yaml12 import JsonValue
    from skills_core.run.ports import JsonObject

__all__ = ["TraceStore", "UnknownTraceError"]

logger = logging.getLogger(__name__)

MAX_SIZE = 64 * 1024 * 1024
"""Bytes of a file that is read."""

_HALF = ".half"
# What is being written.

_ABANDONED = 3600 * 10**9
# Nanoseconds after which nobody writes to a file any more.

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class UnknownTraceError(SkillsError):
    """There is no trace of a run of this name."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no trace of a run {run_id[:130]!r} here.")


class TraceStore:
    """The traces in one folder."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read or made yet."""
        self._folder = folder

    def write(self, run_id: str, trace: Mapping[str, JsonValue]) -> None:
        """Write a trace, whole or not at all, in place of an earlier one of the same run.

        Raises:
            OSError: it cannot be written.
        """
        path = self._path(run_id)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(_HALF, f"{run_id}.", self._folder)
        half = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(trace, file, ensure_ascii=False, indent=1)
            half.replace(path)
        except OSError:
            half.unlink(missing_ok=True)
            raise

    def try_write(self, run_id: str, trace: Mapping[str, JsonValue]) -> None:
        """Write a trace if that is possible: a full disk must not end a run."""
        try:
            self.write(run_id, trace)
        except OSError as error:
            logger.warning("the trace of run %s cannot be written: %s", run_id, error)

    def read(self, run_id: str) -> JsonObject:
        """Return the trace of a run.

        Raises:
            UnknownTraceError: there is none, or its file holds none.
        """
        try:
            trace = json.loads(read_bounded(self._path(run_id), MAX_SIZE) or b"")
        except (FileRefusedError, ValueError, RecursionError) as error:
            raise UnknownTraceError(run_id) from error
        if not isinstance(trace, dict):
            raise UnknownTraceError(run_id)
        return trace

    def run_ids(self) -> list[str]:
        """Return the runs that there are traces of, the one that was written last first."""
        return [path.stem for _, path in sorted(self._files(), reverse=True)]

    def prune(self, keep: int) -> None:
        """Remove all traces but the `keep` that were written last, and what killed processes left half written.

        What cannot be removed stays.
        """
        abandoned = time.time_ns() - _ABANDONED
        left = [path for written, path in self._files(_HALF) if written < abandoned]
        for path in (*left, *(path for _, path in sorted(self._files(), reverse=True)[keep:])):
            with suppress(OSError):
                path.unlink()

    def _files(self, suffix: str = ".json") -> Iterator[tuple[int, Path]]:
        with suppress(OSError):
            for path in list(self._folder.iterdir()):
                if path.suffix == suffix and _RUN_ID.fullmatch(path.stem):
                    with suppress(FileNotFoundError):
                        yield path.stat().st_mtime_ns, path

    def _path(self, run_id: str) -> Path:
        if not _RUN_ID.fullmatch(run_id):
            raise UnknownTraceError(run_id)
        return self._folder / f"{run_id}.json"
