"""Starting, feeding and ending a program within limits."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
from collections import Counter
from pathlib import Path

import anyio
import pytest

from skills_core.scripts import process
from skills_core.scripts.process import Command, ProcessEnding, ProcessLimits, ProcessResult, run_process
from tests.processes import becomes, is_alive

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither sessions nor signals")

LONG = ProcessLimits(seconds=60, output_bytes=1_000_000)
SHORT = ProcessLimits(seconds=1, output_bytes=1_000_000)


@pytest.fixture(params=["event loop", "threads"], autouse=True)
def _waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for pipes as the system can, and as it is done where it cannot."""
    if request.param == "threads":
        monkeypatch.setattr(process, "PIPES_ARE_POLLABLE", False)
    elif sys.platform == "win32":
        pytest.skip("Windows has no way to wait for pipes")


def command(directory: Path, *argv: str, **environment: str) -> Command:
    needed = {"SYSTEMROOT": os.environ["SYSTEMROOT"]} if sys.platform == "win32" else {}
    return Command(argv, directory, {**needed, **environment})


async def python(
    directory: Path, code: str, *arguments: str, limits: ProcessLimits = LONG, stdin: bytes = b""
) -> ProcessResult:
    return await run_process(command(directory, sys.executable, "-c", code, *arguments), limits, stdin)


async def is_gone(number: int) -> bool:
    return await becomes(lambda: not is_alive(number))


async def test_arguments_are_passed_literally_and_streams_are_separate(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:]); print('oh', file=sys.stderr); sys.exit(3)"
    arguments = ("a b", "$(id)", "; id", "*", "", "é", "--help")
    done = await python(tmp_path, code, *arguments)
    assert (done.ending, done.exit_code) == (ProcessEnding.EXITED, 3)
    assert done.stdout.decode().strip() == str(list(arguments))
    assert done.stderr.strip() == b"oh"


async def test_a_program_has_only_the_given_environment_and_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "x")
    code = "import os; print(os.getcwd()); print('\\n'.join(sorted(os.environ)))"
    done = await run_process(command(tmp_path, sys.executable, "-I", "-c", code, ONLY="this"), LONG)
    directory, *names = done.stdout.decode().split()
    assert Path(directory).samefile(tmp_path)
    assert "ONLY" in names
    assert "SECRET_OF_THE_SERVER" not in names


async def test_a_program_reads_its_stdin_to_the_end(tmp_path: Path) -> None:
    code = "import sys; print(len(sys.stdin.buffer.read()), len(sys.stdin.buffer.read()))"
    assert (await python(tmp_path, code, stdin=b"x" * 300_000)).stdout.split() == [b"300000", b"0"]
    assert (await python(tmp_path, code)).stdout.split() == [b"0", b"0"]


@POSIX
async def test_a_program_has_no_terminal(tmp_path: Path) -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), os.isatty(0)); open('/dev/tty')"
    done = await python(tmp_path, code)
    assert done.stdout.split() == [b"True", b"False"]
    assert b"OSError" in done.stderr


async def test_both_streams_are_read_whatever_is_written_to_first(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('e' * 400_000); sys.stdout.write('o' * 400_000)"
    done = await python(tmp_path, code)
    assert (done.ending, len(done.stdout), len(done.stderr)) == (ProcessEnding.EXITED, 400_000, 400_000)


async def test_too_much_output_ends_the_program_and_output_within_the_limit_is_kept(tmp_path: Path) -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 1000); sys.stderr.write('y' * 1000)"
    done = await python(tmp_path, code, limits=ProcessLimits(60, 100_000))
    assert (done.ending, done.exit_code) == (ProcessEnding.TOO_MUCH_OUTPUT, None)
    assert len(done.stdout) + len(done.stderr) == 100_000


async def test_output_of_exactly_the_limit_is_allowed(tmp_path: Path) -> None:
    done = await python(tmp_path, "print('x' * 999, end='')", limits=ProcessLimits(60, 999))
    assert (done.ending, len(done.stdout)) == (ProcessEnding.EXITED, 999)


async def test_a_program_that_takes_too_long_is_ended_and_what_it_wrote_is_kept(tmp_path: Path) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    done = await python(tmp_path, code, limits=SHORT)
    assert (done.ending, done.exit_code) == (ProcessEnding.TIMED_OUT, None)
    assert await is_gone(int(done.stdout))


@POSIX
async def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    code = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"
    done = await python(tmp_path, code, limits=SHORT)
    assert done.ending is ProcessEnding.TIMED_OUT
    assert await is_gone(int(done.stdout))


@POSIX
async def test_a_program_can_clean_up_after_sigterm(tmp_path: Path) -> None:
    code = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (open("tidy", "w").close(), sys.exit(0)))
time.sleep(600)
"""
    assert (await python(tmp_path, code, limits=SHORT)).ending is ProcessEnding.TIMED_OUT
    assert (tmp_path / "tidy").exists()


START_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
"""


@POSIX
async def test_a_child_that_keeps_the_streams_open_does_not_block_the_call_and_ends_with_it(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        done = await python(tmp_path, START_CHILD)
    assert (done.ending, done.exit_code) == (ProcessEnding.EXITED, 0)
    assert await is_gone(int(done.stdout))


@POSIX
async def test_at_the_limit_children_end_too(tmp_path: Path) -> None:
    done = await python(tmp_path, START_CHILD + "child.wait()", limits=SHORT)
    assert done.ending is ProcessEnding.TIMED_OUT
    assert await is_gone(int(done.stdout))


@POSIX
async def test_a_child_with_its_own_session_does_not_block_the_call_either(tmp_path: Path) -> None:
    code = START_CHILD.replace('600)"]', '600)"], start_new_session=True')
    with anyio.fail_after(30):
        done = await python(tmp_path, code)
    assert done.ending is ProcessEnding.EXITED
    os.kill(int(done.stdout), signal.SIGKILL)


@POSIX
async def test_a_cancelled_call_ends_the_program_and_its_children_before_it_goes_on(tmp_path: Path) -> None:
    code = START_CHILD + "open('pid', 'w').write(str(child.pid)); child.wait()"
    started = tmp_path / "pid"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(python, tmp_path, code)
        assert await becomes(lambda: started.exists() and started.read_text() != "")
        tasks.cancel_scope.cancel()
    assert await is_gone(int(started.read_text()))


@pytest.mark.parametrize(
    ("argv", "fault"),
    [
        (("no-such-program-at-all",), "no-such-program-at-all: "),
        ((sys.executable, "a\0b"), "null"),
        pytest.param((sys.executable, "x" * 10_000_000), "too long", marks=POSIX),
    ],
)
async def test_a_program_that_cannot_be_started_has_a_reason(tmp_path: Path, argv: tuple[str, ...], fault: str) -> None:
    done = await run_process(command(tmp_path, *argv), LONG)
    assert (done.ending, done.exit_code) == (ProcessEnding.NOT_STARTED, None)
    assert fault in done.fault.lower()


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = await run_process(command(tmp_path / "gone", sys.executable), LONG)
    assert done.ending is ProcessEnding.NOT_STARTED
    assert done.fault


def open_descriptors() -> Counter[str]:
    """Count this process's descriptors by kind, without TCP sockets: servers of the tests open these at any time."""
    kinds = Counter(kind_of(int(path.name)) for path in Path("/dev/fd").iterdir())
    del kinds["closed"], kinds["socket of TCP"]
    return kinds


def kind_of(descriptor: int) -> str:
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISSOCK(mode):
            return f"type {stat.S_IFMT(mode):o}"
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            return "socket of TCP" if connection.family in {socket.AF_INET, socket.AF_INET6} else "socket"
    except OSError:
        return "closed"  # that of the listing


@POSIX
async def test_no_descriptor_leaks(tmp_path: Path) -> None:
    await python(tmp_path, START_CHILD)
    before = open_descriptors()
    for limits in (LONG, SHORT, ProcessLimits(60, 1)):
        await python(tmp_path, START_CHILD + "import time; time.sleep(2)", limits=limits)
    await run_process(command(tmp_path, "no-such-program-at-all"), LONG)
    # The event loop closes those of an ended process a moment later.
    assert await becomes(lambda: not open_descriptors() - before), open_descriptors() - before
