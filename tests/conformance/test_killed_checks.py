"""What the measurement of killed servers reads off a recording."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from conformance.clients import catalogs
from conformance.clients.dialects.messages import Request, Tool
from conformance.clients.killed import AGAIN, OK, TOLD, UNCHANGED, expected, outcomes_in
from conformance.clients.killed_script import AFTER, Moment, worker_of
from conformance.clients.recording import Exchange, Recording, Step
from conformance.clients.scenarios import ACTIVATE


def recorded(*results: str) -> Recording:
    """Return a conversation in which each call brought one result, the call before the end of the server included."""
    names = (catalogs.LOADED, *AFTER)
    exchanges = [
        Exchange(Request((Tool("x"),), "", results[:place]), Step(ACTIVATE, {"name": name}))
        for place, name in zip(range(len(results)), names, strict=False)
    ]
    return Recording((*exchanges, Exchange(Request((Tool("x"),), "", results), None)))


def test_each_call_after_the_end_of_the_server_has_its_outcome() -> None:
    first, second, _ = AFTER
    results = [catalogs.body_mark(first), f"error: it {AGAIN}", catalogs.body_mark(second), f"It {UNCHANGED} (x)."]
    assert outcomes_in(recorded(*results)) == [TOLD, OK, OK] == expected(Moment.DURING)
    results[1] = "Transport  closed"
    assert outcomes_in(recorded(*results[:2])) == ["Transport closed", "not asked", "not asked"]
    assert outcomes_in(recorded()) == ["not asked"] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_process_that_serves_is_the_child_of_the_one_that_keeps_it(tmp_path: Path) -> None:
    program = "import os, time; os.fork(); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", program, "server", "serve", os.fspath(tmp_path)])
    parent = psutil.Process(process.pid)
    try:
        while not (children := parent.children()):
            pass
        assert worker_of(tmp_path) == children[0].pid
    finally:
        ended = [*parent.children(), parent]
        for each in ended:
            each.kill()
        process.wait()
        psutil.wait_procs(ended)
    with pytest.raises(ProcessLookupError):
        worker_of(tmp_path)
