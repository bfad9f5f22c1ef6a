"""Find out which process listens at a port, where the system tells without further programs: on Linux."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS: Final = "0A"
_MAX_PROCESSES: Final = 20_000


def holder_of(port: int) -> str:
    """Return the process that listens at a port, as `process 123, python`; an empty text if it is not known.

    Processes of other users do not show their sockets.
    """
    wanted = {f"socket:[{number}]" for table in _TABLES for number in _sockets(table, port)}
    if not wanted:
        return ""
    numbers = [name for name in os.listdir("/proc") if name.isdigit()][:_MAX_PROCESSES]  # noqa: PTH208 - names alone
    for number in numbers:
        process = Path("/proc", number)
        if not wanted.isdisjoint(_open_files(process)):
            return f"process {number}, {_name_of(process)}"
    return "a process of another user"


def _sockets(table: str, port: int) -> Iterator[str]:
    """Yield the numbers of the sockets that listen at a port."""
    try:
        lines = Path(table).read_text(encoding="ascii", errors="replace").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        # The local address is the second field, the state the fourth, and the number of the socket the tenth.
        if len(fields) > 9 and fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:  # noqa: PLR2004
            yield fields[9]


def _open_files(process: Path) -> Iterator[str]:
    try:
        for name in os.listdir(process / "fd"):  # noqa: PTH208 - names alone
            yield os.readlink(process / "fd" / name)  # noqa: PTH115 - a `Path` would be made again for each file
    except OSError:
        # It belongs to another user, or has ended.
        return


def _name_of(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "which has ended"
