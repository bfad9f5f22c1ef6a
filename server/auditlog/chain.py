"""The hash chain of a file: each line ends with the SHA-256 of itself, and has that of the line before.

The hash is over the bytes of the line, so that there is one way to check it. It has no secret: who can write all files
can compute all hashes again, and remove records at the end. Therefore files also name the ends of other files, and the
server writes the ends of its files where others keep them: these are anchors.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from server.auditlog.records import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["FIRST", "MAX_ANCHOR", "MAX_LINE", "FileEnd", "InvalidLineError", "anchors_of", "chained_line", "read_line"]

FIRST: Final = "0" * 64
"""What the first line of a file has in place of the hash of the line before."""

MAX_LINE: Final = 512 * 1024
"""Bytes of a line; usual ones have some 400, the first of a file has more."""

_SUFFIX: Final = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_SUFFIX_LENGTH: Final = len(',"hash":""}') + 64
_DECODER: Final = msgspec.json.Decoder(Entry)


_ANCHOR: Final = re.compile(r"(\d{4}-\d\d-\d\d-[0-9a-f]{16}\.jsonl):(\d{1,15}):([0-9a-f]{64})", re.ASCII)

MAX_ANCHOR: Final = 128
"""Characters of an anchor at most."""


class InvalidLineError(ValueError):
    """A line is no record, or not what was written."""


@dataclass(frozen=True, slots=True)
class FileEnd:
    """The end of a file: kept elsewhere, it is an anchor, which shows later whether the file still goes that far.

    `anchored` is how many of the records are covered by an anchor.
    """

    file: str
    records: int
    hash: str
    anchored: int = 0

    @property
    def anchor(self) -> str:
        """The end as one word."""
        return f"{self.file}:{self.records}:{self.hash}"


def anchors_of(text: str) -> Iterator[FileEnd]:
    """Yield the anchors in a text. A file with no record has none."""
    for found in _ANCHOR.finditer(text):
        if records := int(found[2]):
            yield FileEnd(found[1], records, found[3])


def chained_line(fields: Mapping[str, Any], seq: int, prev: str) -> tuple[bytes, str]:
    """Return the line of a record, with its end, and its hash."""
    body = msgspec.json.encode({"seq": seq, **fields, "prev": prev})
    digest = hashlib.sha256(body).hexdigest()
    return b'%s,"hash":"%s"}\n' % (body[:-1], digest.encode()), digest


def read_line(line: bytes) -> Entry:
    """Return the record of a line, without its end.

    Raises:
        InvalidLineError: it is not a record, or its hash does not fit.
    """
    found = _SUFFIX.fullmatch(line[-_SUFFIX_LENGTH:])
    if found is None:
        raise InvalidLineError("this is not a record")
    digest = hashlib.sha256(line[:-_SUFFIX_LENGTH] + b"}").hexdigest()
    if digest.encode() != found[1]:
        raise InvalidLineError("this record was changed")
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError):
        raise InvalidLineError("this is not a record") from None
