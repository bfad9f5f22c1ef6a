"""Keep JSON on the disk: files with one value, and files of lines to which values are appended.

A file that cannot be read, or holds something else, is never taken for absent: whoever did would overwrite what is
there. Others may write the folders: see `read_bounded` and `write_file`. A file of one value is replaced as a whole,
and read, changed and written back under a lock between processes.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skills_core.diagnostics import Reason, printable
from skills_core.disk.files import MAX_FILE_SIZE, MAX_SETTINGS, Location, read_bounded
from skills_core.disk.opening import open_to_change, open_to_read
from skills_core.disk.writing import WAIT_SECONDS, exclusive, write_file
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import BinaryIO

PRIVATE: Final = 0o600
"""The mode of a new file that only its user may read."""


class InvalidJsonError(FileRefusedError):
    """A file can be read, and does not hold JSON."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, Reason.UNREADABLE, message)


def json_bytes(value: object) -> bytes:
    """Return the content of a JSON file. A lone surrogate, as in the name of a file that is not UTF-8, is escaped.

    Raises:
        ValueError: the value is not JSON.
    """
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace")


def parse_json(raw: bytes, shown: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value in the bytes of a file; errors name it as `shown`.

    Raises:
        InvalidJsonError: they are not JSON.
    """
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidJsonError(shown, f"this is not JSON: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A file with one JSON value of at most `limit` bytes; a new one gets `mode`.

    Users may link the file to one that they keep elsewhere: then that one is read and written, and the link stays.
    """

    path: Path
    limit: int = MAX_SETTINGS
    mode: int = PRIVATE

    def read(self, check: Callable[[os.stat_result], None] | None = None) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value; None if there is no file. `check` is as in `read_bounded`.

        Raises:
            InvalidJsonError: the file does not hold JSON.
            FileRefusedError: the file exists and cannot be read.
        """
        raw = read_bounded(self.path, self.limit, check)
        return None if raw is None else parse_json(raw, printable(str(self.path)))

    def write(self, value: object, *, durable: bool = False) -> None:
        """Replace the file as a whole, and create its folder; `durable` is as in `write_file`.

        Raises:
            FileRefusedError: the file cannot be written.
            OSError: the folder cannot be created.
            ValueError: the value is not JSON.
        """
        content = json_bytes(value)
        place = self.path.resolve() if self.path.is_symlink() else self.path
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(Location(place.parent, place.name), content, self.mode, durable=durable)

    def locked(self, seconds: float = WAIT_SECONDS) -> AbstractContextManager[None]:
        """Hold the lock of the file, to read it, change the value and write it back; see `exclusive`."""
        return exclusive(self.path, seconds)


def lines_of(file: BinaryIO, limit: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of an open file without their ends, and whether each is complete: the last one may be torn.

    A process that was killed leaves a torn line. A line of more than `limit` bytes is cut, so that memory is bounded.
    """
    while line := file.readline(limit):
        complete = line.endswith(b"\n")
        kept = line.removesuffix(b"\n")
        while not complete and (rest := file.readline(limit)):
            complete = rest.endswith(b"\n")
        yield kept, complete


def json_lines(path: Path) -> Iterator[Any]:
    """Yield the values of a file of JSON lines; none if there is no file. Lines that are not whole are left out.

    Raises:
        OSError: the file exists and cannot be read.
    """
    try:
        descriptor = open_to_read(path)
    except FileNotFoundError:
        return
    with open(descriptor, "rb") as file:  # noqa: PTH123 - it is a descriptor
        for line, _ in lines_of(file, MAX_FILE_SIZE):
            # The end of the last line may be all that is missing.
            with suppress(ValueError, RecursionError):
                yield json.loads(line.decode("utf-8", "replace"))


class LineWriter:
    """Appends lines to an open file, each as a whole or not at all; `size` counts the bytes of its whole lines."""

    def __init__(self, descriptor: int, size: int = 0) -> None:
        """Write to `descriptor`, which was opened to append and has `size` bytes."""
        self.descriptor = descriptor
        self.size = size
        self.fault: OSError | None = None

    def append(self, lines: Sequence[bytes]) -> int:
        """Write lines with their ends, and wait until the disk has them; return how many the file has now.

        If it has fewer than were given, or the disk does not confirm them, `fault` says why. What another process may
        have read as a line is never taken back.
        """
        content = b"".join(lines)
        written = self._write(content)
        kept, end = 0, 0
        while kept < len(lines) and end + len(lines[kept]) <= written:
            end += len(lines[kept])
            kept += 1
        self.size += end
        if written < len(content):
            # Part of a line may be there; a full disk lets a file become shorter.
            with suppress(OSError):
                os.ftruncate(self.descriptor, self.size)
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            self.fault = self.fault or error
        return kept

    def append_all(self, lines: Sequence[bytes]) -> None:
        """Write lines with their ends.

        Raises:
            OSError: the file does not have all of them.
        """
        if self.append(lines) < len(lines):
            raise self.fault or OSError("the file cannot be written")

    def _write(self, content: bytes) -> int:
        self.fault, written = None, 0
        try:
            while written < len(content):
                written += os.write(self.descriptor, memoryview(content)[written:])
        except OSError as error:
            self.fault = error
        return written


def append_line(path: Path, value: object) -> None:
    """Append a JSON value as a line to a file, and create the file; a torn line of a killed process is ended first.

    Its caller holds a lock, so that no other process appends.

    Raises:
        OSError: the file cannot be written.
    """
    line = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
    descriptor = open_to_change(path, 0o666, appends=True)
    try:
        size = os.fstat(descriptor).st_size
        os.lseek(descriptor, max(size - 1, 0), os.SEEK_SET)
        is_torn = size > 0 and os.read(descriptor, 1) != b"\n"
        LineWriter(descriptor, size).append_all([b"\n" * is_torn + line])
    finally:
        os.close(descriptor)
