"""Answer the first requests over stdio while the SDK is imported.

A thread imports, and this thread waits for the client's lines. All lines go on to the SDK's server, those that were
answered under ids of our own, so that nothing is lost and the server has the state of the whole conversation.
"""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from server.hosting.interpreter import short_turns

if TYPE_CHECKING:
    from server.protocol.early_answers import EarlyAnswer

logger = logging.getLogger(__name__)

READ_SIZE = 1 << 16


class Opening(NamedTuple):
    """A connection over two pipes, and what was read and written before the SDK's server serves it.

    `received` are the bytes for the server, `silent` the ids of those requests in it that have been answered, `streams`
    the ids of streams that have been acknowledged, `unsent` the rest of an answer, and `ended` tells whether the client
    has closed its end.
    """

    source: int
    sink: int
    received: bytes = b""
    silent: frozenset[str] = frozenset()
    streams: frozenset[str | int] = frozenset()
    unsent: bytes = b""
    ended: bool = False


def can_wait_for(descriptor: int) -> bool:
    """Tell whether the event loop can wait for a descriptor: not on Windows, not for files, not for /dev/null."""
    if not hasattr(select, "poll"):
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


@contextmanager
def claimed_pipes() -> Generator[tuple[int, int]]:
    """Reserve stdin and stdout for the protocol; within the block, all other output to stdout goes to stderr."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        yield source, sink
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.close(source)
        os.close(sink)


_MAX_BYTES = 1 << 18
# Beyond this much that waits for the SDK's server, or for the client to read, nothing more is read.


def answer_while_loading(
    load: Callable[[], object], answer: Callable[[bytes], EarlyAnswer | None], source: int, sink: int
) -> Opening:
    """Run `load` in a thread, and until it ends answer the lines that come from `source` where `answer` can.

    An exception of `load` is raised here.
    """
    lines = _Lines(answer, source, sink)
    with _loading(load) as loaded:
        while True:
            poll = select.poll()
            poll.register(loaded, select.POLLIN)
            if lines.wants_more:
                poll.register(source, select.POLLIN)
            if lines.unsent:
                poll.register(sink, select.POLLOUT)
            ready = {descriptor for descriptor, _ in poll.poll()}
            if sink in ready:
                lines.send()
            if source in ready:
                lines.receive(_read(source))
            if loaded in ready:
                return lines.opening()


class _Lines:
    """The lines of the client so far, and the answers to them."""

    def __init__(self, answer: Callable[[bytes], EarlyAnswer | None], source: int, sink: int) -> None:
        self._answer = answer
        self._source = source
        self._sink = sink
        self._is_broken = False
        self._received = bytearray()
        self._rest = b""
        self._silent: set[str] = set()
        self._streams: set[str | int] = set()
        self._ended = False
        self.unsent = b""

    @property
    def wants_more(self) -> bool:
        waiting = len(self._received) + len(self._rest)
        return not self._ended and waiting < _MAX_BYTES and len(self.unsent) < _MAX_BYTES

    def receive(self, chunk: bytes) -> None:
        self._ended = not chunk
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            answer = self._answered(line) if line.strip() and not self._is_broken else None
            if answer is None:
                self._received += line + b"\n"
                continue
            self._received += answer.to_server
            if answer.silent is not None:
                self._silent.add(answer.silent)
            if answer.stream is not None:
                self._streams.add(answer.stream)
            self.unsent += answer.to_client
        self.send()

    def _answered(self, line: bytes) -> EarlyAnswer | None:
        try:
            return self._answer(line)
        except Exception:
            logger.exception("a request cannot be answered before the SDK is loaded, so it waits")
            return None

    def send(self) -> None:
        """Write as much as the pipe takes without blocking."""
        poll = select.poll()
        poll.register(self._sink, select.POLLOUT)
        try:
            while self.unsent and poll.poll(0):
                # POSIX: a ready pipe takes this much without blocking, in either mode.
                self.unsent = self.unsent[os.write(self._sink, self.unsent[: select.PIPE_BUF]) :]
        except ConnectionError:
            # The client does not read any more, but its last messages still count.
            self.unsent = b""
            self._is_broken = True

    def opening(self) -> Opening:
        return Opening(
            self._source,
            self._sink,
            bytes(self._received) + self._rest,
            frozenset(self._silent),
            frozenset(self._streams),
            self.unsent,
            self._ended,
        )


def _read(source: int) -> bytes:
    try:
        return os.read(source, READ_SIZE)
    except ConnectionError:
        return b""


@contextmanager
def _loading(load: Callable[[], object]) -> Iterator[int]:
    """Run `load` in a thread, whose exception is raised at the end; yield a descriptor that its end makes readable."""
    faults: list[BaseException] = []
    end_read, end_write = os.pipe()

    def run() -> None:
        try:
            load()
        except BaseException as fault:  # noqa: BLE001 - raised below, in the thread of the caller
            faults.append(fault)
        finally:
            os.close(end_write)

    # The thread that imports never waits.
    with short_turns():
        thread = threading.Thread(target=run, name="load")
        thread.start()
        try:
            yield end_read
        finally:
            thread.join()
            os.close(end_read)
    if faults:
        raise faults[0]
