"""Programs as child processes, with an environment that is the same wherever they run, and always ended again."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from anyio.abc import ByteReceiveStream, Process, TaskGroup, TaskStatus

__all__ = ["HERE", "REPOSITORY", "CheckError", "Finished", "Place", "run", "serve", "skillserve", "tail"]

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent

START = 60.0
GRACE = 10.0
PATIENCE = 180.0
"""In seconds; only what hangs ever takes so long."""

OTHERS_SETTINGS = ("SKILLSERVE_", "XDG_", "MCP_", "FASTMCP_", "NODE_")


class CheckError(Exception):
    """A check could not be made, or its answer could not be read."""


@dataclass(frozen=True, slots=True)
class Place:
    """A temporary folder, in which everything runs and into which everything is written."""

    root: Path

    def folder(self, name: str) -> Path:
        """Return a folder of that name, which is there afterwards."""
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def environment(self) -> dict[str, str]:
        """Take this process's environment, less what could make one run differ from another."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS_SETTINGS)}
        local = "127.0.0.1,localhost"
        # The inspector and others keep files in the home folder.
        own = {"HOME": str(self.folder("home")), "NO_COLOR": "1", "NO_PROXY": local, "no_proxy": local}
        return {**kept, **own, "PYTHONPATH": str(REPOSITORY), "SKILLSERVE_WATCH_DEBOUNCE_MS": "60"}


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended."""

    code: int
    out: str
    err: str


def skillserve(command: str, directories: Sequence[Path], *flags: str) -> list[str]:
    """Return the words of a `skillserve` command over directories."""
    return [sys.executable, "-m", "server", command, *map(str, directories), *flags]


async def run(words: Sequence[str], place: Place) -> Finished:
    """Run a program to its end.

    Raises:
        CheckError: It did not end in time.
    """
    try:
        with anyio.fail_after(PATIENCE):
            done = await anyio.run_process(
                list(words), check=False, stdin=subprocess.DEVNULL, cwd=place.root, env=place.environment()
            )
    except TimeoutError as error:
        raise CheckError(f"did not end within {PATIENCE:.0f} s: {' '.join(words)}") from error
    # Node writes lone surrogates as it likes; what is wrong shows in the comparison, not here.
    return Finished(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


@asynccontextmanager
async def serve(directories: Sequence[Path], place: Place) -> AsyncGenerator[str]:
    """Run a server over HTTP on a free port of the loopback interface; yields its URL.

    Raises:
        CheckError: It did not start.
    """
    words = skillserve("serve", directories, "--transport", "http", "--port", "0", "--log-level", "warning")
    try:
        async with (
            await anyio.open_process(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=place.root, env=place.environment()
            ) as process,
            anyio.create_task_group() as tasks,
        ):
            try:
                yield await _address(process, tasks)
            finally:
                await _end(process)
    except BaseExceptionGroup as group:
        # Of the task group that reads the log: what went wrong is one thing.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


async def _address(process: Process, tasks: TaskGroup) -> str:
    """Start reading the log, in the background; returns the address from its first lines."""
    if process.stderr is None:
        raise CheckError("the server's log is no pipe")
    try:
        with anyio.fail_after(START):
            address: str = await tasks.start(_read_log, process.stderr)
    except TimeoutError as error:
        raise CheckError(f"the server did not start within {START:.0f} s") from error
    return address


async def _end(process: Process) -> None:
    with anyio.CancelScope(shield=True):
        process.terminate()
        with anyio.move_on_after(GRACE):
            await process.wait()
        if process.returncode is None:
            process.kill()


async def _read_log(stderr: ByteReceiveStream, *, task_status: TaskStatus[str]) -> None:
    """Read on to the end, so that the server never waits for a reader; the address is in its first lines."""
    text = ""
    started = False
    async for chunk in stderr:
        if started:
            continue
        text += chunk.decode(errors="replace")
        for line in text.splitlines(keepends=True):
            if line.strip().startswith("address") and line.endswith("\n"):
                started = True
                task_status.started(line.split()[-1])
                break
    if not started:
        raise CheckError(f"the server did not start: {tail(text)}")


def tail(text: str, length: int = 600) -> str:
    """Return the end of what a program said."""
    text = text.strip()
    return text if len(text) <= length else f"… {text[-length:]}"
