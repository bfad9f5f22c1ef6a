"""The person at a terminal: asked on it, and told how far a run has come; without a terminal there is nobody."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.run.ports import Nobody, unheard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.status import Status

    from skills_core.run.ports import Progress, Report, User

__all__ = ["at_terminal"]

_YES = frozenset({"y", "yes"})


@contextmanager
def at_terminal() -> Iterator[tuple[User, Report]]:
    """Return who can be asked and told, as long as the block lasts: the person at stdin and stderr, or nobody."""
    if not sys.stderr.isatty():
        yield Nobody(), unheard
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status("beginning") as line:
        person = _Person(console, line)
        yield (person if sys.stdin.isatty() else Nobody()), person.told


class _Person:
    """Whoever sits before stdin and stderr."""

    def __init__(self, console: Console, line: Status) -> None:
        self._console = console
        self._line = line

    async def told(self, progress: Progress) -> None:
        """Show what the run does now."""
        from rich.text import Text

        self._line.update(Text(one_line(progress.message)))

    async def confirm(self, question: str) -> bool | None:
        """Ask for consent; whatever is not yes is no."""
        return (await self._asked(f"{question} [y/N] ")).strip().lower() in _YES

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Ask for a text; of choices, one may be named by its number."""
        listed = "".join(f"\n  {number}. {one_line(choice)}" for number, choice in enumerate(choices, 1))
        answer = (await self._asked(f"{question}{listed}\n> ")).strip()
        if choices and answer.isdecimal() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        return answer if answer and (not choices or answer in choices) else None

    async def _asked(self, question: str) -> str:
        self._line.stop()
        try:
            # A thread that waits for a line cannot be ended: it is left behind when the run is cancelled.
            return await anyio.to_thread.run_sync(self._read, question, abandon_on_cancel=True)
        finally:
            self._line.start()

    def _read(self, question: str) -> str:
        self._console.print(question, end="", markup=False)
        return sys.stdin.readline()
