"""Keep a stdio server alive: a small process that stands between the client and the server, and replaces the server.

Several clients never start a server again that has ended: its tools are lost for the rest of their session. This
process passes whole lines in both directions, and forks the process that serves before anything heavy is imported, so
that a start costs no second interpreter. When that process ends, it forks the next one and replays the session.

Systems without `fork` serve without it.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from server.transport.early_stdio import READ_SIZE, can_wait_for
from server.transport.session_replay import SessionReplay

PREVIOUS_END: Final[ContextVar[str]] = ContextVar("PREVIOUS_END", default="")
"""In a process that replaces another one: how that one ended."""

_MAX_BYTES: Final = 1 << 18
# Beyond this much that waits for a reader, nothing more is read for it.

_WINDOW_SECONDS: Final = 60.0
_DELAYS: Final = (0.0, 1.0, 2.0, 4.0)
# Seconds before each start again; a server that ends once more within the window is given up.

_PASSED: Final = () if sys.platform == "win32" else (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# The signals that end a server or reload its skills.

_EXIT_USAGE: Final = 2
# Something is wrong that only a person can correct.
_SIGNAL_EXIT_BASE: Final = 128


class ServerKeepsEndingError(Exception):
    """The server ended too often; `code` is the exit code of a process that passes this on."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def keep_alive(serve: Callable[[], object]) -> None:
    """Run `serve` in a process that is replaced when it ends, unless the client, a signal or wrong usage ended it.

    It returns in each process that has served. That is this one where stdin or stdout is not a pipe, or the system has
    no `fork`.

    Raises:
        ServerKeepsEndingError: it ended too often within a minute.
        SystemExit: it ended otherwise; the code is its own, or 128 plus the number of the signal that ended it.
    """
    if sys.platform == "win32" or not _stands_between_pipes():
        serve()
        return
    code = _Keeper().run()
    if code is not None:
        raise SystemExit(code)
    serve()


def _stands_between_pipes() -> bool:
    try:
        return all(can_wait_for(each) and not os.isatty(each) for each in (0, 1))
    except OSError:
        return False


class _Lines:
    """The lines in what is read piece by piece."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def of(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that a chunk completes; the empty chunk at the end completes the last one."""
        if not chunk:
            chunk = b"\n" if any(self._rest) else b""
        first, *others = chunk.split(b"\n")
        self._rest.append(first)
        for other in others:
            line = b"".join(self._rest)
            self._rest = [other]
            yield line + b"\n"


class _Waiting:
    """Lines that wait to be written to a pipe."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._written = 0
        self.size = 0

    def add(self, line: bytes) -> None:
        if line:
            self._lines.append(line)
            self.size += len(line)

    def write_some(self, descriptor: int) -> bytes:
        """Write as much as a ready pipe takes; return the line that is complete with it, if any.

        Raises:
            ConnectionError: nobody reads it any more.
        """
        line = self._lines[0]
        # POSIX: a ready pipe takes this much without blocking, in either mode; others may share the pipe and its mode.
        self._written += os.write(descriptor, memoryview(line)[self._written : self._written + select.PIPE_BUF])
        if self._written < len(line):
            return b""
        self._written = 0
        self.size -= len(line)
        return self._lines.popleft()

    def start_over(self) -> None:
        """Write the first line from its beginning again, to another reader."""
        self._written = 0

    def clear(self) -> None:
        self._lines.clear()
        self._written = self.size = 0


@dataclass(slots=True)
class _Worker:
    """A process that serves, and the ends of its pipes; None once they are closed."""

    pid: int
    stdin: int | None
    stdout: int | None
    lines: _Lines = field(default_factory=_Lines)

    def close_stdin(self) -> None:
        if self.stdin is not None:
            os.close(self.stdin)
            self.stdin = None

    def close_stdout(self) -> None:
        if self.stdout is not None:
            os.close(self.stdout)
            self.stdout = None


class _Keeper:
    """The client, the process that serves it, and what waits between them."""

    def __init__(self) -> None:
        self._session = SessionReplay()
        self._from_client = _Lines()
        self._replayed = _Waiting()
        self._to_worker = _Waiting()
        self._to_client = _Waiting()
        self._worker: _Worker | None = None
        self._has_left = False
        self._is_read = True
        self._stopped_by = 0
        self._ends: deque[float] = deque()
        self._start_at = 0.0
        self._previous_end = ""

    def run(self) -> int | None:
        """Relay until the server ends for good, and return its exit code; return None in a process that is to serve."""
        with _awakened(self._on_signal) as awake:
            while True:
                if self._worker is None:
                    if self._has_left or self._stopped_by:
                        return _SIGNAL_EXIT_BASE + self._stopped_by if self._stopped_by else 0
                    if time.monotonic() >= self._start_at and not self._fork():
                        return None
                self._relay(awake)
                code = self._reaped()
                if code is not None:
                    return code

    def _on_signal(self, number: int, _frame: object) -> None:
        """Pass a signal on; the server does what it always does, and is not started again if that ends it."""
        if number != signal.SIGHUP:
            self._stopped_by = number
        if self._worker is not None:
            with suppress(ProcessLookupError):
                os.kill(self._worker.pid, number)

    def _fork(self) -> bool:
        """Start the process that serves; return False in that process."""
        worker_source, stdin = os.pipe()
        stdout, worker_sink = os.pipe()
        # In the child they stay so until its handlers are those of a server.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED)
        pid = os.fork()
        if pid == 0:
            for own, standard in ((worker_source, 0), (worker_sink, 1)):
                os.dup2(own, standard)
            for each in (worker_source, stdin, stdout, worker_sink):
                os.close(each)
            # Keys of a terminal, such as Ctrl-C, signal all of a group; this process gets them from its parent alone.
            os.setpgid(0, 0)
            gc.disable()
            PREVIOUS_END.set(self._previous_end)
            return False
        for each in (worker_source, worker_sink):
            os.close(each)
        os.set_blocking(stdin, False)
        gc.enable()
        self._worker = _Worker(pid, stdin, stdout)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return True

    def _relay(self, awake: int) -> None:
        """Wait until something can be done, and do it."""
        ready, worker = self._ready(awake), self._worker
        if awake in ready:
            os.read(awake, READ_SIZE)  # which signals they were, their handlers know
        if 1 in ready:
            self._write_to_client()
        if 0 in ready:
            self._read_from_client()
        if worker is None:
            return
        if worker.stdout in ready:
            self._read_from(worker)
        if worker.stdin in ready:
            self._write_to(worker)
        if self._has_left and not (self._replayed.size or self._to_worker.size):
            worker.close_stdin()

    def _ready(self, awake: int) -> set[int | None]:
        """Wait until something can be read or written; return what."""
        poll, worker = select.poll(), self._worker
        poll.register(awake, select.POLLIN)
        if not self._has_left and self._to_worker.size < _MAX_BYTES:
            poll.register(0, select.POLLIN)
        if self._to_client.size:
            poll.register(1, select.POLLOUT)
        if worker is not None and worker.stdout is not None and self._to_client.size < _MAX_BYTES:
            poll.register(worker.stdout, select.POLLIN)
        if worker is not None and worker.stdin is not None and (self._replayed.size or self._to_worker.size):
            poll.register(worker.stdin, select.POLLOUT)
        delay = None if worker is not None else max(0.0, self._start_at - time.monotonic()) * 1000
        return {descriptor for descriptor, _ in poll.poll(delay)}

    def _read_from_client(self) -> None:
        chunk = _read(0)
        for line in self._from_client.of(chunk):
            self._to_worker.add(line)
        self._has_left = not chunk

    def _write_to_client(self) -> None:
        try:
            self._to_client.write_some(1)
        except ConnectionError:
            # The server is told as it would be without this process.
            self._is_read = False
            self._to_client.clear()
            if self._worker is not None:
                self._worker.close_stdout()

    def _read_from(self, worker: _Worker) -> bool:
        """Read once from the server; return whether it may have written more."""
        chunk = _read(worker.stdout) if worker.stdout is not None else b""
        if not chunk:
            # What is left of a message without its end is lost with the server.
            worker.close_stdout()
            return False
        for line in worker.lines.of(chunk):
            told = self._session.received(line)
            if self._is_read:
                self._to_client.add(told)
        return True

    def _write_to(self, worker: _Worker) -> None:
        if worker.stdin is None:
            return
        waiting = self._replayed if self._replayed.size else self._to_worker
        try:
            if line := waiting.write_some(worker.stdin):
                self._session.sent(line)
        except ConnectionError:
            # It has closed its end; what waits is for the next one.
            worker.close_stdin()

    def _reaped(self) -> int | None:
        """Return the exit code if the server has ended for good; if it has to be started again, prepare that."""
        worker = self._worker
        if worker is None:
            return None
        pid, status = os.waitpid(worker.pid, os.WNOHANG)
        if not pid:
            return None
        self._worker = None
        code = os.waitstatus_to_exitcode(status)
        while self._has_more(worker):
            pass
        worker.close_stdin()
        worker.close_stdout()
        if self._is_final(code):
            self._write_rest()
            return _exit_code(code)
        self._to_client.add(self._session.lost())
        self._prepare_start(code)
        return None

    def _has_more(self, worker: _Worker) -> bool:
        """Read on after the end of the server, as long as its pipe has something."""
        if worker.stdout is None:
            return False
        poll = select.poll()
        poll.register(worker.stdout, select.POLLIN)
        return bool(poll.poll(0)) and self._read_from(worker)

    def _is_final(self, code: int) -> bool:
        return self._has_left or not self._is_read or bool(self._stopped_by) or code == _EXIT_USAGE

    def _prepare_start(self, code: int) -> None:
        """Set when the next server starts, and what it gets first.

        Raises:
            ServerKeepsEndingError: there is no next one.
        """
        self._previous_end = f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.Signals(-code).name})"
        now = time.monotonic()
        self._ends.append(now)
        while self._ends[0] < now - _WINDOW_SECONDS:
            self._ends.popleft()
        if len(self._ends) > len(_DELAYS):
            self._write_rest()
            often = f"the server ended {len(self._ends)} times within {_WINDOW_SECONDS:.0f} seconds"
            why = f"{often}, at last with {self._previous_end}; it is not started again"
            raise ServerKeepsEndingError(why, _exit_code(code) or 1)
        self._start_at = now + _DELAYS[len(self._ends) - 1]
        self._replayed.clear()
        for line in self._session.again():
            self._replayed.add(line)
        self._to_worker.start_over()

    def _write_rest(self) -> None:
        """Write what the client has not got yet, as long as it reads."""
        with suppress(ConnectionError):
            while self._is_read and self._to_client.size:
                poll = select.poll()
                poll.register(1, select.POLLOUT)
                poll.poll()
                self._to_client.write_some(1)


def _exit_code(code: int) -> int:
    """Return the exit code that shells show; that of the system is negative after a signal."""
    return code if code >= 0 else _SIGNAL_EXIT_BASE - code


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, READ_SIZE)
    except ConnectionError:
        return b""


@contextmanager
def _awakened(handle: Callable[[int, object], None]) -> Iterator[int]:
    """Call `handle` for the signals that end a server; yield a descriptor that they, and ends of children, wake."""
    source, sink = os.pipe()
    for each in (source, sink):
        os.set_blocking(each, False)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    before = {each: signal.getsignal(each) for each in (*_PASSED, signal.SIGCHLD)}
    signal.set_wakeup_fd(sink, warn_on_full_buffer=False)
    for each, known in before.items():
        # `nohup` has its server ignore them.
        if known is not signal.SIG_IGN or each == signal.SIGCHLD:
            signal.signal(each, _ignore if each == signal.SIGCHLD else handle)
    try:
        yield source
    finally:
        signal.set_wakeup_fd(-1)
        for each, known in before.items():
            signal.signal(each, known)
        os.close(source)
        os.close(sink)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _ignore(*_: object) -> None:
    """Do nothing: without a handler of Python, a signal wakes nobody."""
