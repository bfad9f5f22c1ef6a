"""Show the events of watched servers: on one screen of a terminal, or as lines of text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import anyio
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from server.capabilities.operation.watching import WatchedEvent, Watcher, WatchError, shown
from server.cli.console import print_notice, print_text
from server.cli.terminal import read_keys
from skills_core.diagnostics import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.capabilities.operation.watching import Target, WatchedServer

_REFRESH_SECONDS: Final = 0.25
_MAX_COMING: Final = 3
_TROUBLE: Final = "!"
# Beside the word, so that nobody needs the colour.

_COLOURS: Final = {"activation": "green", "added": "cyan", "edited": "cyan", "removed": "cyan", "schedule": "magenta"}


async def print_events(targets: Sequence[Target], *, is_one: bool, as_json: bool) -> None:
    """Print each event on a line, until cancelled; notices go to stderr.

    Raises:
        WatchError: the named server refuses, or does not answer at all.
    """

    def show(event: WatchedEvent) -> None:
        # JSON in ASCII has no character that a terminal obeys.
        line = json.dumps({"server": event.server, **event.given}) if as_json else line_of(event, several=not is_one)
        print_text(line)
        sys.stdout.flush()

    await Watcher(show, print_notice, is_one=is_one).follow(targets)


def line_of(event: WatchedEvent, *, several: bool) -> str:
    """Return an event as a line of text, with the server if there may be `several`."""
    mark = _TROUBLE if event.is_trouble else " "
    taken = "" if event.milliseconds is None else f"{event.milliseconds:,.1f} ms"
    about = ", ".join(each for each in (event.who, taken, event.server if several else "") if each)
    return f"{event.time:%H:%M:%S} {mark} {event.kind:<10} {event.text}{f'  ({about})' if about else ''}"


async def show_screen(targets: Sequence[Target], *, is_one: bool) -> None:
    """Show the events on one screen, until cancelled or `q` is typed.

    Raises:
        WatchError: the named server refuses, or does not answer at all.
    """
    screen = _Screen(is_one=is_one)
    # A terminal that is closed cannot be shown anything, and a signal follows.
    with _single_keys(), suppress(OSError), Live(console=screen.console, screen=True, auto_refresh=False) as live:
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                await screen.watcher.follow(targets)

            async def until_asked() -> None:
                await _typed_q()
                tasks.cancel_scope.cancel()

            tasks.start_soon(follow)
            tasks.start_soon(until_asked)
            while True:
                live.update(screen.rendered(), refresh=True)
                with anyio.move_on_after(1.0):
                    await screen.changed.wait()
                    # A burst of events is shown at once.
                    await anyio.sleep(_REFRESH_SECONDS)
                screen.changed = anyio.Event()


class _Screen:
    def __init__(self, *, is_one: bool) -> None:
        self.console = Console(highlight=False)
        self.watcher = Watcher(self._on_event, self._on_notice, is_one=is_one)
        self.changed = anyio.Event()
        self._notice = ""

    def _on_event(self, _: WatchedEvent) -> None:
        self.changed.set()

    def _on_notice(self, notice: str) -> None:
        self._notice = f"{datetime.now().astimezone():%H:%M:%S} {shown(notice)}"
        self.changed.set()

    def rendered(self) -> Group:
        now = datetime.now().astimezone()
        head = [*self._servers(now), self._counts(now)]
        foot = [*self._coming(now), Text(self._notice, style="yellow"), Text("q ends", style="dim")]
        for line in (*head, *foot):
            line.no_wrap, line.overflow = True, "ellipsis"
        room = max(1, self.console.height - len(head) - len(foot) - 2)
        return Group(*head, Text(), self._table(room), *foot)

    def _servers(self, now: datetime) -> Iterator[Text]:
        for name, server in self.watcher.servers.items():
            yield Text(f"{shown(name)}  {_described(server, now)}", style="bold" if server.is_there else "dim")

    def _counts(self, now: datetime) -> Text:
        counts = self.watcher.counts(now)
        clients = {event.given.get("client") for event in self.watcher.events if event.given.get("client")}
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common()) or "nothing"
        return Text(f"in the last minute: {kinds}; clients so far: {len(clients)}")

    def _coming(self, now: datetime) -> Iterator[Text]:
        found = [
            (str(each.get("time")), shown(each.get("what")))
            for server in self.watcher.servers.values()
            if server.is_there
            for each in server.about.get("coming") or ()
        ]
        # Servers of one user keep time for the same schedules.
        for time, what in sorted(set(found))[:_MAX_COMING]:
            with suppress(ValueError):
                at = datetime.fromisoformat(time).astimezone()
                yield Text(f"next: {what} at {at:%H:%M:%S}{'' if at.date() == now.date() else f' on {at:%d %b}'}")

    def _table(self, room: int) -> Table:
        """Return the latest events that the screen has room for, the newest last."""
        table = Table(box=None, pad_edge=False, expand=True, header_style="bold")
        several = len(self.watcher.servers) > 1
        table.add_column("time", no_wrap=True, width=8)
        table.add_column("", no_wrap=True, width=1)
        table.add_column("what", no_wrap=True, width=10)
        table.add_column("event", no_wrap=True, overflow="ellipsis", ratio=3)
        table.add_column("client", no_wrap=True, overflow="ellipsis", ratio=1)
        if several:
            table.add_column("server", no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column("ms", no_wrap=True, justify="right", width=8)
        for event in [*self.watcher.events][-room:]:
            style = "red" if event.is_trouble else _COLOURS.get(event.kind, "")
            cells = [f"{event.time:%H:%M:%S}", _TROUBLE if event.is_trouble else "", event.kind, event.text, event.who]
            cells += [shown(event.server)] if several else []
            cells.append("" if event.milliseconds is None else f"{event.milliseconds:,.1f}")
            table.add_row(*map(Text, cells), style=style)
        return table


def _described(server: WatchedServer, now: datetime) -> str:
    about: Any = server.about
    if not about:
        return "connecting"
    try:
        skills, began = (
            counted(int(about["skills"]), "skill"),
            datetime.fromtimestamp(float(about["began"])).astimezone(),
        )
    except (KeyError, ValueError, TypeError, OverflowError, OSError):
        raise WatchError("the server at this address is not skillserve") from None
    minutes = max(0, int((now - began).total_seconds()) // 60)
    up = f"{minutes // 60}h {minutes % 60:02}m" if minutes >= 60 else f"{minutes}m"  # noqa: PLR2004 - an hour
    state = f"up {up}" if server.is_there else "has ended"
    # The folders come last, because a narrow screen cuts them off.
    return f"skillserve {shown(about.get('version'))}, {state}, {skills} of {shown(about.get('folders'))}"


@contextmanager
def _single_keys() -> Iterator[None]:
    """Have keys without Enter within the block, if stdin is a terminal of a system that has this."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin.fileno())
    try:
        tty.setcbreak(sys.stdin.fileno())
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)


async def _typed_q() -> None:
    """Wait until `q` is typed; for ever where single keys cannot be read."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        await anyio.sleep_forever()
    while True:
        await anyio.wait_readable(sys.stdin.fileno())
        typed = read_keys(sys.stdin.fileno())
        if b"q" in typed.lower():
            return
        if not typed:
            await anyio.sleep_forever()
