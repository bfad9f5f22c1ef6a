"""Measure the time from an edit on disk to the notification of a client."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from record import main_uri
from wire import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from client import Client

DEBOUNCE_MS = 250
TIMEOUT = 10.0
# One edit can cause several notifications; wait for all of them before the next edit.
QUIET = 1.0


def edit_delays(client: Client, root: Path, names: list[str]) -> tuple[list[float], str]:
    """Edit each skill once; return the milliseconds until the first notification, and the error that ended it."""
    delays: list[float] = []
    try:
        client.subscribe([main_uri(name) for name in names])
        client.settle(QUIET)
        for name in names:
            with _restored(root / name / "SKILL.md") as path:
                delays.append(_delay(client, path, root.parent / "edited.md"))
                client.settle(QUIET)
            client.settle(QUIET)
    except (BenchError, OSError) as error:
        return delays, str(error)
    return delays, ""


def _delay(client: Client, path: Path, draft: Path) -> float:
    """Replace SKILL.md by an atomic rename and wait for the first notification."""
    edited = path.read_bytes().replace(b'description: "', b'description: "Edited. ', 1)
    draft.write_bytes(edited + b"\nEdited.\n")
    start = time.perf_counter()
    os.replace(draft, path)  # noqa: PTH105 - time only the rename itself
    arrived = client.next_change(TIMEOUT)
    if arrived is None:
        raise BenchError(f"no notification within {TIMEOUT:g} s of an edit")
    return (arrived - start) * 1e3


@contextmanager
def _restored(path: Path) -> Iterator[Path]:
    """Restore the file on exit, for the following cases."""
    original = path.read_bytes()
    try:
        yield path
    finally:
        path.write_bytes(original)
