"""Run programs as child processes with a reproducible environment, and always stop them."""

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
"""In seconds; only a hanging program takes so long."""

REMOVED_PREFIXES = ("SKILLSERVE_", "XDG_", "MCP_", "FASTMCP_", "NODE_")


class CheckError(Exception):
    """A check could not run, or its output could not be parsed."""


@dataclass(frozen=True, slots=True)
class Place:
    """The temporary folder of a run: the working directory of programs, and the place of all files."""

    root: Path

    def folder(self, name: str) -> Path:
        """Return a folder of that name; create it if it does not exist."""
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def environment(self) -> dict[str, str]:
        """Return this process's environment without variables that could change the results."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(REMOVED_PREFIXES)}
        local = "127.0.0.1,localhost"
        # The inspector and others keep files in the home folder.
        own = {"HOME": str(self.folder("home")), "NO_COLOR": "1", "NO_PROXY": local, "no_proxy": local}
        return {**kept, **own, "PYTHONPATH": str(REPOSITORY), "SKILLSERVE_WATCH_DEBOUNCE_MS": "60"}


@dataclass(frozen=True, slots=True)
class Finished:
    """The exit code and the output of a program."""

    code: int
    out: str
    err: str


def skillserve(command: str, directories: Sequence[Path], *flags: str) -> list[str]:
    """Return the command line of a `skillserve` command for directories."""
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
    # Node may print lone surrogates; the comparison of results reports them.
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
        # The task group that reads the log wraps a single error.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


async def _address(process: Process, tasks: TaskGroup) -> str:
    """Start to read the log in the background; return the address from its first lines."""
    if process.stderr is None:
        raise CheckError("the server's stderr is not a pipe")
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
    """Report the address from the first lines, then read to the end so that the server never blocks."""
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
    """Return the end of a program's output."""
    text = text.strip()
    return text if len(text) <= length else f"… {text[-length:]}"
