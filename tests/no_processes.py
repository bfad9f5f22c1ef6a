"""A plugin for the inner loop, `pytest -p tests.no_processes`: a test that starts a process is skipped when it does so.

No list says which tests these are: the interpreter tells its audit hooks of each start of a process, whichever fixture,
helper or part of the product asks for it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass

import pytest

STARTS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.startfile", "os.system", "subprocess.Popen"})
"""The audit events that precede the start of a process."""
SECONDS = 1.0
"""How long a test may go on once a start was refused: it may wait for the process forever."""


@dataclass
class Refusal:
    """Whether starts are refused now, and whether one was."""

    is_armed: bool = False
    was_needed: bool = False


def skip() -> None:
    pytest.skip("starts a process")


def refuser(refusal: Refusal) -> Callable[[str, object], None]:
    def refuse(event: str, _: object, /) -> None:
        if refusal.is_armed and event in STARTS:
            refusal.was_needed = True
            if sys.platform != "win32":
                signal.setitimer(signal.ITIMER_REAL, SECONDS)
            skip()

    return refuse


class NoProcesses:
    """Skips tests, also where a group of exceptions holds the refusal or the product handled it."""

    def __init__(self) -> None:
        self._refusal = Refusal()
        sys.addaudithook(refuser(self._refusal))
        if sys.platform != "win32":
            signal.signal(signal.SIGALRM, lambda *_: skip())

    def _without_processes(self) -> Generator[None, object, object]:
        self._refusal.is_armed, self._refusal.was_needed = True, False
        try:
            result = yield
        except BaseException:
            if not self._refusal.was_needed:
                raise
            result = None
        finally:
            self._refusal.is_armed = False
            if sys.platform != "win32":
                signal.setitimer(signal.ITIMER_REAL, 0)
        if self._refusal.was_needed:
            skip()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        return (yield from self._without_processes())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        return (yield from self._without_processes())


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NoProcesses(), "no_processes")
