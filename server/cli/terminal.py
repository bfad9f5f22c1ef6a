"""The person at a terminal: asked on it, and told how far a run has come; without a terminal there is nobody."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import anyio

from server.exchange.consent_text import MARK, answer_text, consent_text
from skills_core.diagnostics import one_line
from skills_core.run.ports import Nobody, unheard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.status import Status

    from skills_core.run.ports import Progress, Report, User

__all__ = ["at_terminal"]

_YES = frozenset({"y", "yes"})

_MOST = 65536

_HANG_UP_SECONDS = 2.0
# Until the signal is there that the system sends with the end of a terminal.
"""Bytes that are read at a time; a terminal gives a line at a time, which is shorter."""

_NARROWEST = 20


@contextmanager
def at_terminal(name: str) -> Iterator[tuple[User, Report]]:
    """Return who can be asked and told, as long as the block lasts: the person at stdin and stderr, or nobody.

    They are asked on behalf of what they know by `name`.
    """
    if not sys.stderr.isatty():
        yield Nobody(), unheard
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    line = console.status("beginning")
    person = _Person(name, console, line)
    line.start()
    try:
        yield (person if sys.stdin.isatty() else Nobody()), person.told
    finally:
        with _unless_gone():
            line.stop()


def _unless_gone() -> suppress:
    """Let nothing fail because the terminal was closed: a signal tells of that, and ends the run."""
    return suppress(OSError)


class _Person:
    """Whoever sits before stdin and stderr."""

    def __init__(self, name: str, console: Console, line: Status) -> None:
        self._name = name
        self._console = console
        self._line = line
        self._keyboard = keyboard_of(sys.stdin.fileno())

    async def told(self, progress: Progress) -> None:
        """Show what the run does now."""
        from rich.text import Text

        with _unless_gone():
            self._line.update(Text(one_line(progress.message)))

    async def confirm(self, question: str) -> bool | None:
        """Ask for consent; whatever is not yes is no, and the end of what is typed is nobody."""
        answer = await self._asked(f"{consent_text(self._name, question)}\n[y/N] ")
        return None if answer is None else answer.lower() in _YES

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Ask for a text; of choices, one may be named by its number."""
        listed = "".join(f"\n{MARK}{number}. {one_line(choice)}" for number, choice in enumerate(choices, 1))
        answer = await self._asked(f"{answer_text(self._name, question)}{listed}\nYour answer: ") or ""
        if choices and answer.isdecimal() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        return answer if answer and (not choices or answer in choices) else None

    async def _asked(self, question: str) -> str | None:
        """Return what is typed on the next line, None where nobody types any more."""
        with _unless_gone():
            self._line.stop()
        try:
            # What was typed before is no answer to what nobody could read yet.
            self._keyboard.forget()
            with _unless_gone():
                self._show(question)
            line = await self._keyboard.line()
            return line.decode(sys.stdin.encoding, errors="replace").strip() if line else None
        finally:
            with _unless_gone():
                self._line.start()

    def _show(self, question: str) -> None:
        """Print a question; where the terminal would begin a line by itself, that has the mark of its line too."""
        from rich.cells import chop_cells
        from rich.text import Text

        width = max(_NARROWEST, self._console.width) - len(MARK)
        lines: list[str] = []
        for line in question.split("\n"):
            quoted = line.startswith(MARK)
            lines += [MARK + piece for piece in chop_cells(line.removeprefix(MARK), width)] if quoted else [line]
        self._console.print(Text("\n".join(lines)), end="", soft_wrap=True)


class Keyboard(Protocol):
    """What a person types at a terminal."""

    def forget(self) -> None:
        """Drop what was typed so far."""

    async def line(self) -> bytes:
        """Return the next line that is typed, empty where the terminal is gone."""


class ReadyKeyboard:
    """Read once there is something to read, so that nothing is left waiting where a run is cancelled."""

    def __init__(self, descriptor: int) -> None:
        """Read from the terminal of this descriptor."""
        self._descriptor = descriptor

    def forget(self) -> None:
        """Drop what was typed so far."""
        if sys.platform != "win32":
            import termios

            with suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def line(self) -> bytes:
        """Return the next line that is typed."""
        line = b""
        while not line.endswith(b"\n"):
            await anyio.wait_readable(self._descriptor)
            piece = _piece(self._descriptor)
            if not piece:
                if _has_hung_up(self._descriptor):
                    # SIGHUP comes with it and leaves the run to be continued; an end of input would be an answer.
                    await anyio.sleep(_HANG_UP_SECONDS)
                break
            line += piece
        return line


class ThreadKeyboard:
    """Read in a thread that the process does not wait for: on Windows nothing tells that a line is there."""

    def __init__(self, descriptor: int) -> None:
        """Read from the terminal of this descriptor."""
        self._descriptor = descriptor
        self._next: asyncio.Future[bytes] | None = None

    def forget(self) -> None:
        """Drop what was typed so far."""
        if sys.platform == "win32":
            import msvcrt

            while msvcrt.kbhit():
                msvcrt.getwch()

    async def line(self) -> bytes:
        """Return the next line that is typed. A thread that an earlier question left behind reads it."""
        if self._next is None or self._next.done():
            self._next = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._read, args=(self._next,), daemon=True).start()
        return await asyncio.shield(self._next)

    def _read(self, line: asyncio.Future[bytes]) -> None:
        piece = _piece(self._descriptor)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            line.get_loop().call_soon_threadsafe(line.set_result, piece)


def keyboard_of(descriptor: int) -> Keyboard:
    """Return what reads the terminal of this descriptor on this system."""
    return ThreadKeyboard(descriptor) if sys.platform == "win32" else ReadyKeyboard(descriptor)


def _has_hung_up(descriptor: int) -> bool:
    """Tell whether the other end of a terminal is gone; at Ctrl-D it is there."""
    import select

    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def _piece(descriptor: int) -> bytes:
    """Read a piece past Python's buffers, whose locks would hold up the end of the process."""
    try:
        # On Windows a file of its own reads the console, as UTF-8, where the descriptor alone does not.
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read(_MOST) or b""
    except OSError:
        return b""
