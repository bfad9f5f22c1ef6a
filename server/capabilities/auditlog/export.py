"""Write records for other programs: as JSON lines, or as CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from server.capabilities.auditlog.records import ChainedRecord

__all__ = ["COLUMNS", "ExportFormat", "exported", "object_of"]

COLUMNS: Final = (
    *("when", "event", "principal", "kind", "roles", "client", "era", "address", "method", "tool", "skill", "digest"),
    *("target", "decision", "reason", "request_id", "count", "lost", "since", "before"),
)
"""The columns of a CSV file, and the fields of a record in JSON."""

_FORMULA: Final = ("=", "+", "-", "@", "\N{FULLWIDTH EQUALS SIGN}", "\N{FULLWIDTH PLUS SIGN}")
_MORE_FORMULAS: Final = ("\N{FULLWIDTH HYPHEN-MINUS}", "\N{FULLWIDTH COMMERCIAL AT}", "\N{MINUS SIGN}", "|", "%")


class ExportFormat(StrEnum):
    """The format of an export."""

    JSONL = "jsonl"
    CSV = "csv"


def object_of(entry: ChainedRecord) -> dict[str, Any]:
    """Return a record as JSON, without the fields of the chain."""
    fields = msgspec.to_builtins(entry)
    return {name: fields[name] for name in COLUMNS if fields.get(name) not in (None, [], ())}


def exported(entries: Iterable[ChainedRecord], kind: ExportFormat) -> Iterator[str]:
    """Yield the lines of an export, without their ends."""
    if kind is ExportFormat.JSONL:
        yield from (json.dumps(object_of(entry)) for entry in entries)
        return
    yield ",".join(COLUMNS)
    for entry in entries:
        line = io.StringIO()
        fields = object_of(entry)
        csv.writer(line, lineterminator="").writerow([_cell(fields.get(name)) for name in COLUMNS])
        yield line.getvalue()


def _cell(value: object) -> str:
    """Return the text of a cell that no spreadsheet takes for a formula; control characters are escaped."""
    if value is None:
        return ""
    text = one_line(" ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
    is_formula = not isinstance(value, int) and text.lstrip().startswith((*_FORMULA, *_MORE_FORMULAS))
    return f"'{text}" if is_formula else text
