"""The journal of a test: finished work, a JSON object a line, so that a process that was killed repeats none of it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from skills_core.format.yaml12 import JsonValue


class Journal:
    """A file of records by key; the last record of a key counts."""

    def __init__(self, path: Path) -> None:
        """Read the records; a line that is not whole, as a killed process leaves it, is ignored."""
        self._path = path
        self._records: dict[str, Mapping[str, JsonValue]] = {}
        raw = path.read_bytes() if path.exists() else b""
        self._broken = bool(raw) and not raw.endswith(b"\n")
        for line in raw.decode("utf-8", "replace").split("\n"):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and isinstance(record.get("key"), str):
                self._records[record["key"]] = record

    def find(self, key: str) -> Mapping[str, JsonValue] | None:
        """Return the record of a key."""
        return self._records.get(key)

    def add(self, key: str, record: Mapping[str, JsonValue]) -> None:
        """Write a record to the disk.

        Raises:
            OSError: the file cannot be written.
        """
        whole = {"key": key, **record}
        with self._path.open("ab") as file:
            file.write(b"\n" * self._broken + json.dumps(whole, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._broken = False
        self._records[key] = whole
