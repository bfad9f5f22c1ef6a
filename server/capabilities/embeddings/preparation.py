"""What a running server does so that searches by meaning need not wait: it loads the model, and follows changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from server.capability import ServerPart

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from server.capabilities.embeddings.second_opinion import SecondOpinion
    from server.hosting.host import Host


_DELAY: Final = 1.0
# Seconds after the start, in which a client sends its first requests.


class Preparation(ServerPart):
    """Prepares the second opinion in a thread, at the start and after each change of skills.

    The thread waits for the process of the model, which the end of the server ends.
    """

    def __init__(self, host: Host, opinion: SecondOpinion) -> None:
        """Start no thread yet."""
        self._host = host
        self._opinion = opinion
        self._due = threading.Event()
        self._ended = threading.Event()

    def around(self, port: int | None) -> AbstractContextManager[object]:
        """Return what runs the thread while the server answers."""
        del port
        return self._running()

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._host.on_change(lambda _: self._due.set())
        thread = threading.Thread(target=self._run, name="search by meaning")
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._due.set()
            self._opinion.close()
            thread.join()

    def _run(self) -> None:
        if self._ended.wait(_DELAY):
            return
        while not self._ended.is_set():
            self._due.clear()
            self._opinion.prepare(self._host.everything.active, lambda: not self._ended.is_set())
            self._due.wait()
