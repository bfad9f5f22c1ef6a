"""Load a large source with several processes, as each process of Python uses one processor at a time.

This process lists the folders at the top of the source until there are enough below them to share out. The others load
these, some at a time with all that is in them, and return the entries that the index would have. So what comes back
counts as what an index has, and is compared with the disk afterwards. What is missing is found then and loaded by this
process: what is at the top, what could not be read or had just changed, and the share of a process that ended early.

A message is its length and then its bytes. The first one to a process is the source; all others are paths of folders,
and each is answered by entries. A process ends with its stdin.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Final, cast

from msgspec import MsgspecError, msgpack

from skills_core.diagnostics import printable
from skills_core.disk.folders import Listing
from skills_core.disk.sources import Source
from skills_core.disk.tree import Tree, join
from skills_core.loading.discovery import LoadedSource, Part, load_below
from skills_core.loading.index import Row, SourceIndex, rows_below
from skills_core.loading.records import Restoration

logger = logging.getLogger(__name__)

_MOST_PROCESSES: Final = 4
# This process restores what they load, which takes a fourteenth of the time.

_BATCH: Final = 32
# Folders in a message; in the first ones are fewer, so that it is soon known how long the load will take.

_BEGINNING: Final = 512
# To start the processes takes about as long as they need for so many folders.

_AHEAD: Final = 8
# Messages to each process whose entries are not restored yet: to publish what is loaded may take seconds.

_NICENESS: Final = 5
# Requests come first.

_STAGE: Final = 1000
# Entries in one write to the index.

_LENGTH: Final = 8

_PACKAGE: Final = Path(__file__).parents[2]
_START: Final = "import sys; sys.path.insert(0, sys.argv[1]); from skills_core.loading.processes import main; main()"


def load_with_processes(
    source: Source, top: Tree, folders: list[str], index: SourceIndex | None = None, count: int | None = None
) -> Generator[Part]:
    """Load folders of a source with one process for each processor, or with `count`; each step yields it as it is then.

    They are loaded in their order. `top` has the listings of all above them. The last part is not known to be complete
    before it is compared with the disk. Nothing comes if there is one processor, or no process can be started. The
    index gets what is loaded, so that the next start goes on if this one is ended.
    """
    count = min(_processors(), _MOST_PROCESSES) if count is None else count
    if count <= 1:
        return
    batches, done = list(_batches(folders)), 0
    restoration, unfinished = Restoration(source, top), Tree()
    for folder in top:
        unfinished.enter(folder, Listing())
    new = rows_below(LoadedSource(source, unfinished), ())
    with closing(_entries(source, batches, count)) as entries:
        for batch, rows in zip(batches, entries, strict=False):
            done += len(batch)
            for row in rows:
                restoration.add(*row)
            if restoration.is_empty:
                continue
            new += rows if index is not None else ()
            if index is not None and len(new) >= _STAGE:
                index.add(source, new)
                new.clear()
            share = (done + _BEGINNING) / (len(folders) + _BEGINNING)
            yield Part(restoration.loaded, partial(float, share))
            if restoration.is_beyond_bounds:
                break
    if not restoration.is_empty:
        whole = _without_missing(restoration, top)
        if index is not None:
            index.add(source, new)
            index.hold(whole)
        yield Part(lambda: whole, lambda: 1.0)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _batches(folders: list[str]) -> Iterator[list[str]]:
    """Yield the folders of each message, in order."""
    start, size = 0, 1
    while start < len(folders):
        yield folders[start : start + size]
        start, size = start + size, min(2 * size, _BATCH)


def _without_missing(restoration: Restoration, top: Tree) -> LoadedSource:
    """Return a source without the folders that were not loaded, so that a comparison finds them new."""
    loaded = restoration.loaded()
    for folder, listing in top.items():
        kept = tuple(name for name in listing.folders if join(folder, name) in loaded.tree)
        loaded.tree.enter(folder, replace(listing, folders=kept))
    # Which folders are left out beyond a bound, only a scan of the whole source tells.
    loaded.tree.bounded = restoration.is_beyond_bounds
    return loaded


def _entries(source: Source, batches: Iterable[list[str]], count: int) -> Generator[list[Row]]:
    """Yield the entries of each batch of folders, in this order; none for those that are lost."""
    with ExitStack() as stack:
        try:
            loaders = [stack.enter_context(closing(_Loader(source))) for _ in range(count)]
        except (OSError, UnicodeError):
            return
        ahead = deque[_Loader]()
        for loader, batch in zip(cycle(loaders), batches, strict=False):
            loader.folders.put(batch)
            ahead.append(loader)
            if len(ahead) >= _AHEAD * count:
                yield ahead.popleft().rows.get()
        while ahead:
            yield ahead.popleft().rows.get()


class _Loader:
    """A process that loads folders of a source, and the thread that talks to it.

    What is put into `folders` is answered in `rows`: empty if it is lost, as is all else once the process has ended.
    """

    def __init__(self, source: Source) -> None:
        """Start the process.

        Raises:
            OSError: it cannot be started.
            UnicodeError: the source has a path that is not text.
        """
        self.folders: SimpleQueue[list[str] | None] = SimpleQueue()
        self.rows: SimpleQueue[list[Row]] = SimpleQueue()
        self._source = msgpack.encode(source, enc_hook=str)
        self._root = printable(str(source.root))
        self._is_closed = False
        # `-P`: a folder that the user works in may have a package of the same name.
        command = [sys.executable, "-P", "-c", _START, str(_PACKAGE)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)  # noqa: S603
        # The end of this process does not wait for it.
        self._thread = threading.Thread(target=self._talk, name="load", daemon=True)
        self._thread.start()

    def _talk(self) -> None:
        questions, answers = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        has_failed = False
        with suppress(OSError), questions, answers:
            for number, folders in enumerate(iter(self.folders.get, None)):
                rows: list[Row] = []
                try:
                    if not number:
                        _send(questions, self._source)
                    _send(questions, msgpack.encode(folders))
                    rows = _decode_rows(_receive(answers))
                except (OSError, EOFError, ValueError, MsgspecError):
                    if not has_failed and not self._is_closed:
                        message = "a process that loads skills of %s has failed; this one loads what is missing"
                        logger.info(message, self._root)
                    has_failed = True
                self.rows.put(rows)

    def close(self) -> None:
        """End the process and the thread, and give up what is not loaded."""
        self._is_closed = True
        self._process.kill()
        self.folders.put(None)
        self._thread.join()
        self._process.wait()


def main() -> None:
    """Load what comes on stdin until it ends, as one of the processes."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    with (
        suppress(EOFError, BrokenPipeError, KeyboardInterrupt),
        os.fdopen(0, "rb") as questions,
        os.fdopen(1, "wb") as answers,
    ):
        source = _decode_source(_receive(questions))
        while True:
            folders = _decode_folders(_receive(questions))
            _send(answers, msgpack.encode(rows_below(load_below(source, folders), folders)))


def _path(_: type, value: object) -> Path:
    return Path(str(value))


_decode_source: Final = msgpack.Decoder(Source, dec_hook=_path).decode
_decode_folders: Final = msgpack.Decoder(list[str]).decode
_decode_rows: Final = msgpack.Decoder(list[Row]).decode


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_LENGTH) + message)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    """Return the next message.

    Raises:
        EOFError: there is none, or not all of it.
    """
    length = int.from_bytes(stream.read(_LENGTH))
    message = stream.read(length)
    if not length or len(message) < length:
        raise EOFError
    return message
