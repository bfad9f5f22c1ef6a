"""The journal of a test: finished work, a JSON object a line, so that a process that was killed repeats none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.disk.writing import append_line, json_lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from skills_core.format.yaml12 import JsonValue


class Journal:
    """A file of records by key; the last record of a key counts."""

    def __init__(self, path: Path) -> None:
        """Read the records; a line that is not whole, as a killed process leaves it, is ignored.

        Raises:
            OSError: the file exists and cannot be read.
        """
        self._path = path
        self._records: dict[str, Mapping[str, JsonValue]] = {}
        for record in json_lines(path):
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
        append_line(self._path, whole)
        self._records[key] = whole
