"""A model whose server is killed while it works, and the calls by which it sees what its client does then."""

from __future__ import annotations

import os
import signal
import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.clients import catalogs
from conformance.clients.dialects.messages import Call

if TYPE_CHECKING:
    from conformance.clients.dialects.messages import Request
    from conformance.clients.scripted_model import Play, Script

__all__ = ["AFTER", "Moment", "script"]

AFTER = (catalogs.LOADED, catalogs.OTHER, catalogs.LOADED)
"""The skills that the model loads after the server was killed; the first one is loaded before that, too."""

SECONDS = 2.0
"""The time that a real model takes to answer; a client that notices the end of a server has noticed it by then."""


class Moment(StrEnum):
    """When the server is killed."""

    BETWEEN = "between"
    """No request is open."""
    DURING = "during"
    """A request is open."""
    TWICE = "twice"
    """Between calls, and once more after the next one."""


def script(folder: Path, moment: Moment) -> Script:
    """Return the script in which the server of the skills in `folder` is killed at a moment."""

    def play(_first: Request) -> Play:
        yield Call("activate_skill", {"name": catalogs.LOADED})
        if moment is Moment.DURING:
            worker = worker_of(folder)
            os.kill(worker, signal.SIGSTOP)
            threading.Timer(SECONDS, os.kill, [worker, signal.SIGKILL]).start()
        else:
            os.kill(worker_of(folder), signal.SIGKILL)
            time.sleep(SECONDS)
        for place, name in enumerate(AFTER):
            yield Call("activate_skill", {"name": name})
            if moment is Moment.TWICE and place == 0:
                os.kill(worker_of(folder), signal.SIGKILL)
                time.sleep(SECONDS)

    return play


def worker_of(folder: Path) -> int:
    """Return the process that serves the skills in `folder`: of a process and its child, the child.

    Raises:
        ProcessLookupError: there is none.
    """
    servers: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            # The fields after the name of the program, which may have blanks and brackets.
            fields = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if {b"server", b"serve", os.fsencode(folder)} <= {*words} and fields[0] != "Z":
            servers[int(process.name)] = int(fields[1])
    leaves = servers.keys() - {*servers.values()}
    if not leaves:
        raise ProcessLookupError(f"no process serves {folder}")
    return max(leaves)
