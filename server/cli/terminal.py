"""Ask the user at the terminal, and show the progress of a run there."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import anyio

from server.conversation.elicitation import MARK, answer_text, consent_text
from skills_core.diagnostics import one_line
from skills_core.interaction import NoUser, discard_progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from skills_core.interaction import Progress, ProgressCallback, User


_YES = frozenset({"y", "yes"})

_READ_BYTES = 65536
"""Size of one read; a terminal returns at most one line, which is shorter."""

_HANG_UP_SECONDS = 2.0
"""Time for SIGHUP to arrive after the terminal was closed."""

_MIN_WIDTH = 20


@contextmanager
def attach_terminal(name: str) -> Iterator[tuple[User, ProgressCallback]]:
    """Yield the user at the terminal and the receiver of progress reports, until the block ends.

    Questions name the skill or workflow `name`. Without a terminal on stdin, questions stay unanswered; without one on
    stderr, there is no progress report either.
    """
    if not sys.stderr.isatty():
        yield NoUser(), discard_progress
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    status = console.status("starting")
    user = _TerminalUser(name, console, status)
    status.start()
    try:
        yield (user if sys.stdin.isatty() else NoUser()), user.show_progress
    finally:
        with _ignoring_hang_up():
            status.stop()


def _ignoring_hang_up() -> suppress:
    """Ignore write errors of a closed terminal: SIGHUP follows, and ends the run."""
    return suppress(OSError)


class _TerminalUser:
    """The user at a terminal on stdin and stderr."""

    def __init__(self, name: str, console: Console, status: Status) -> None:
        self._name = name
        self._console = console
        self._status = status
        self._keyboard = keyboard_of(sys.stdin.fileno())

    async def show_progress(self, progress: Progress) -> None:
        """Show the current step of the run."""
        from rich.text import Text

        with _ignoring_hang_up():
            self._status.update(Text(one_line(progress.message)))

    async def confirm(self, question: str) -> bool | None:
        """Ask for consent; any answer but yes is a refusal, and so is the end of input."""
        answer = await self._prompt(f"{consent_text(self._name, question)}\n[y/N] ")
        return None if answer is None else answer.lower() in _YES

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Ask for a text; a choice may be given by its number."""
        listed = "".join(f"\n{MARK}{number}. {one_line(choice)}" for number, choice in enumerate(choices, 1))
        answer = await self._prompt(f"{answer_text(self._name, question)}{listed}\nYour answer: ") or ""
        if choices and answer.isdecimal() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        return answer if answer and (not choices or answer in choices) else None

    async def _prompt(self, question: str) -> str | None:
        """Show the question and return the next line of input, None at end of input."""
        with _ignoring_hang_up():
            self._status.stop()
        try:
            # Input typed before the question was shown is not an answer to it.
            self._keyboard.discard_pending()
            with _ignoring_hang_up():
                self._show(question)
            line = await self._keyboard.read_line()
            return line.decode(sys.stdin.encoding, errors="replace").strip() if line else None
        finally:
            with _ignoring_hang_up():
                self._status.start()

    def _show(self, question: str) -> None:
        """Print a question; wrap quoted lines here, so that each continuation line has the mark of quotes too."""
        from rich.cells import chop_cells
        from rich.text import Text

        width = max(_MIN_WIDTH, self._console.width) - len(MARK)
        lines: list[str] = []
        for line in question.split("\n"):
            quoted = line.startswith(MARK)
            lines += [MARK + piece for piece in chop_cells(line.removeprefix(MARK), width)] if quoted else [line]
        self._console.print(Text("\n".join(lines)), end="", soft_wrap=True)


class Keyboard(Protocol):
    """The input of a terminal."""

    def discard_pending(self) -> None:
        """Discard input that was not read yet."""

    async def read_line(self) -> bytes:
        """Return the next line of input, empty if the terminal is closed."""


class PollingKeyboard:
    """Read only when input is ready, so that a cancelled run leaves no blocked read."""

    def __init__(self, descriptor: int) -> None:
        """Read from the terminal with this file descriptor."""
        self._descriptor = descriptor

    def discard_pending(self) -> None:
        """Discard input that was not read yet."""
        if sys.platform != "win32":
            import termios

            with suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def read_line(self) -> bytes:
        """Return the next line of input."""
        line = b""
        while not line.endswith(b"\n"):
            await anyio.wait_readable(self._descriptor)
            chunk = read_keys(self._descriptor)
            if not chunk:
                if _has_hung_up(self._descriptor):
                    # Wait for SIGHUP, which interrupts the run; an end of input would count as an answer.
                    await anyio.sleep(_HANG_UP_SECONDS)
                break
            line += chunk
        return line


class ThreadKeyboard:
    """Read in a daemon thread: on Windows a console cannot be polled for lines."""

    def __init__(self, descriptor: int) -> None:
        """Read from the terminal with this file descriptor."""
        self._descriptor = descriptor
        self._next: asyncio.Future[bytes] | None = None

    def discard_pending(self) -> None:
        """Discard input that was not read yet."""
        if sys.platform == "win32":
            import msvcrt

            while msvcrt.kbhit():
                msvcrt.getwch()

    async def read_line(self) -> bytes:
        """Return the next line of input; reuse the thread of an earlier question that was cancelled."""
        if self._next is None or self._next.done():
            self._next = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._read, args=(self._next,), daemon=True).start()
        return await asyncio.shield(self._next)

    def _read(self, line: asyncio.Future[bytes]) -> None:
        chunk = read_keys(self._descriptor)
        with suppress(RuntimeError):  # the loop is closed
            line.get_loop().call_soon_threadsafe(line.set_result, chunk)


def keyboard_of(descriptor: int) -> Keyboard:
    """Return the keyboard reader for this operating system."""
    return ThreadKeyboard(descriptor) if sys.platform == "win32" else PollingKeyboard(descriptor)


def _has_hung_up(descriptor: int) -> bool:
    """Return whether the terminal was closed, as opposed to Ctrl-D."""
    import select

    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def read_keys(descriptor: int) -> bytes:
    """Return what was typed at a terminal, empty at its end.

    It is read without Python's buffers, whose locks could block the exit of the process.
    """
    try:
        # On Windows, a file object reads the console as UTF-8; reading the descriptor directly does not.
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read(_READ_BYTES) or b""
    except OSError:
        return b""
