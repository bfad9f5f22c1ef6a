"""A supervisor program: starts another program, and kills all of its descendants, whatever sessions they are in.

Linux reparents orphans to the nearest subreaper (PR_SET_CHILD_SUBREAPER), so that no descendant leaves this process's
tree. It is a process of its own, because not all children of the server are scripts. It runs from its source text: it
imports nothing of this package, and only small modules of the standard library.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress

_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE, _SET_CHILD_SUBREAPER = 1, 4, 36

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

_NOT_STARTED = 127
_KILL_SECONDS = 5.0
# Most time for killing; only a tree that forks faster than it is killed takes longer.


def main(arguments: list[str]) -> int:
    """Run a program and return its exit code; if a signal ended it, end by the same signal.

    `arguments` are the process id of the server, the seconds between SIGTERM and SIGKILL, and the command line. SIGTERM
    is forwarded; the kernel sends it when the server ends.
    """
    server, grace, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) or prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0):
        return _report_failure(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())), "supervisor")
    signals = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child = os.fork()
    if child == 0:
        _exec(command)
    # This process must not keep the program's streams open.
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    status = _follow(child, grace, signals, server)
    _end_descendants()
    if os.WIFSIGNALED(status):
        prctl(_SET_DUMPABLE, 0, 0, 0, 0)  # a core dump would be this process's
        _end_by_signal(os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status)


def _exec(command: list[str]) -> None:
    """In the child: lead a process group, to which SIGTERM is forwarded, and exec the program."""
    try:
        os.setpgid(0, 0)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execvp(command[0], command)  # noqa: S606 - there is no shell on purpose
    except OSError as error:
        os._exit(_report_failure(error, command[0]))


def _report_failure(error: OSError, what: str) -> int:
    os.write(2, f"{what}: {error.strerror}\n".encode(errors="replace"))
    return _NOT_STARTED


def _follow(child: int, grace: float, signals: set[signal.Signals], server: int) -> int:
    """Return the wait status of the program; it is killed when it outlives SIGTERM by `grace` seconds."""
    deadline = None
    if os.getppid() != server:
        # The server ended before PR_SET_PDEATHSIG took effect.
        deadline = time.monotonic()
    while True:
        ended, status = _reap(child)
        if ended:
            return status
        if deadline is None:
            if signal.sigwait(signals) is signal.SIGTERM:
                deadline = time.monotonic() + grace
                with suppress(OSError):
                    os.killpg(child, signal.SIGTERM)
                    os.killpg(child, signal.SIGCONT)
        elif (left := deadline - time.monotonic()) <= 0:
            os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1]
        else:
            signal.sigtimedwait(signals, left)


def _reap(child: int) -> tuple[bool, int]:
    """Reap ended children; return whether `child` is one of them, and its status."""
    while True:
        try:
            number, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False, 0
        if number in {0, child}:
            return number == child, status


def _end_descendants() -> None:
    """Kill all descendants. When their parents die, they become children of this process, until none is left.

    Most programs leave none; then the processes of the system are not read.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for number in _descendants():
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.002)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - importing pathlib would take as long as everything else
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The program's name may contain anything; it ends at the last parenthesis.
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _end_by_signal(number: int) -> None:
    """End by the same signal as the program, so that the server sees it."""
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    os.kill(os.getpid(), number)
    sys.exit(128 + number)
