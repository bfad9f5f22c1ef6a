"""Attempts of a script to escape, and their results in a sandbox and without one.

The table is checked against the one in docs/guides/run-scripts.md.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from skills_core.scripts.isolation import Isolation
from skills_core.scripts.process import ProcessEnding, ProcessLimits, ProcessResult
from tests.core.scripts.running import FOUND, MakeRunner, with_files
from tests.processes import becomes, sleepers, unique_seconds
from tests.server.sessions import REPOSITORY, server_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are sandboxes on Linux alone")

MEMORY = 512 << 20
# Of all processes together, where that is bounded; enough for the folder that a script may fill.

SECRET = "a-secret-of-the-server"  # noqa: S105 - planted

STOPPED = "stopped"
REACHED = "not stopped"
DEPENDS = "depends on the system"

Facts = dict[str, Any]


def says_so(finished: ProcessResult, _: Facts) -> bool:
    return finished.stdout.endswith(b"reached\n")


def goes_on(finished: ProcessResult, _: Facts) -> bool:
    return finished.ending is ProcessEnding.EXITED


def left_something(_: ProcessResult, facts: Facts) -> bool:
    found = [path for path in facts["left"] if Path(path).exists()]
    for path in found:
        Path(path).unlink()
    return bool(found)


def harmed(_: ProcessResult, facts: Facts) -> bool:
    return not Path(facts["precious"]).exists()


def survived(_: ProcessResult, facts: Facts) -> bool:
    found = sleepers(facts["marker"])
    for number in found:
        os.kill(number, signal.SIGKILL)
    return bool(found)


@dataclass(frozen=True)
class Attempt:
    """What is tried in Python, what comes of it, and how that is seen; `f` are places and numbers to reach for."""

    name: str
    code: str
    sandbox: str
    plain: str
    got_through: Callable[[ProcessResult, Facts], bool] = says_so


# The processes end with their parent, whose end alone closes the pipe.
FORKS = """
reader, writer = os.pipe()
for _ in range(300):
    if os.fork() == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
"""

DETACH = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for stream in (0, 1, 2):
            os.close(stream)
        os.execvp("sleep", ["sleep", f["marker"]])
    os._exit(0)
os.wait()
"""

FLOOD = "while True: print('x' * 1000)"
FILL = "out = open('x', 'wb')\nfor _ in range(300): out.write(bytes(1 << 20))\nout.flush()"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
ENVIRONS = """
for path in glob.glob('/proc/[0-9]*/environ'):
    try:
        found = f['secret'] in open(path).read()
    except OSError:
        continue
    if found:
        break
else:
    raise SystemExit
"""
OWN = "assert f['secret'] in os.environ.values()"
ENTER = "assert ctypes.CDLL(None).unshare(0x10000000) == 0"
KERNEL = """
for path in ['/proc/sysrq-trigger', *glob.glob('/proc/sys/**', recursive=True), *glob.glob('/proc/irq/**')]:
    try:
        os.close(os.open(path, os.O_WRONLY))
        break
    except OSError:
        continue
else:
    raise SystemExit
"""
# It opens the files and writes nothing.

DEVICE = "mode = os.stat('/dev/null').st_mode & 0o7777\nos.chmod('/dev/null', mode)"
CALLS = """
import platform
generic = platform.machine() != 'x86_64'
libc = ctypes.CDLL(None)
def call(*numbers, arguments):
    return libc.syscall(ctypes.c_long(numbers[generic]), *map(ctypes.c_long, arguments))
"""
KEYRING = f"{CALLS}\nassert call(250, 219, arguments=(0, -3, 0)) > 0"
KEYS = "assert open('/proc/keys').read()"
IO_URING = f"{CALLS}\nparameters = ctypes.create_string_buffer(120)\n"
IO_URING += "assert call(425, 425, arguments=(4, ctypes.addressof(parameters))) >= 0"
TRACE = f"""{CALLS}
child = os.fork()
if child == 0:
    time.sleep(600)
    os._exit(0)
traced = call(101, 117, arguments=(0x4206, child, 0, 0))
os.kill(child, 9)
assert traced == 0
"""
SHARED = """
import mmap
reader, writer = os.pipe()
for _ in range(16):
    if os.fork() == 0:
        memory = mmap.mmap(-1, 64 << 20)
        for offset in range(0, len(memory), 4096):
            memory[offset] = 1
        os.write(writer, b'.')
        os.close(writer)
        time.sleep(600)
os.close(writer)
done = b''
while piece := os.read(reader, 16):
    done += piece
if len(done) < 16:
    raise SystemExit
"""
SETUID = "assert 'NoNewPrivs:\\t0' in open('/proc/self/status').read()"

ATTEMPTS = [
    Attempt("read a key in the user's home", "open(f['key']).read()", STOPPED, REACHED),
    Attempt("read a file of another skill", "open(f['other']).read()", STOPPED, REACHED),
    Attempt("read what another program has in `/tmp`", "open(f['foreign']).read()", STOPPED, REACHED),
    Attempt("read by a link in its own folder", "os.symlink(f['key'], 'l'); open('l').read()", STOPPED, REACHED),
    Attempt("write to the skill as it is installed", "open(f['skill'] + '/x', 'w')", STOPPED, REACHED),
    Attempt(
        "write to the copy of the skill that it runs from",
        "own = os.environ['SKILL_DIR']; os.chmod(own, 0o700); open(own + '/x', 'w')",
        STOPPED,
        REACHED,
    ),
    Attempt("write to a file outside", "open(f['precious'], 'a')", STOPPED, REACHED),
    Attempt(
        "leave a file in `/tmp` or `/dev/shm`",
        "[open(path, 'w') for path in f['left']]",
        STOPPED,
        REACHED,
        left_something,
    ),
    Attempt(
        "have the clean-up follow a link",
        "os.symlink(os.path.dirname(f['precious']), 'l')",
        STOPPED,
        STOPPED,
        harmed,
    ),
    Attempt(
        "find secrets of the server in its own environment",
        "assert f['secret'] in os.environ.values()",
        STOPPED,
        STOPPED,
    ),
    Attempt("read the environment of other processes, `/proc/1/environ` too", ENVIRONS, STOPPED, REACHED),
    Attempt(
        "connect to a port of this machine", "socket.create_connection(('127.0.0.1', f['port']))", STOPPED, REACHED
    ),
    Attempt(
        "connect to a socket in the file system",
        "socket.socket(socket.AF_UNIX).connect(f['socket'])",
        STOPPED,
        REACHED,
    ),
    Attempt(
        "connect to an abstract socket",
        "socket.socket(socket.AF_UNIX).connect('\\0' + f['abstract'])",
        STOPPED,
        REACHED,
    ),
    Attempt("kill another process of the user, such as the server", "os.kill(f['victim'], 9)", STOPPED, REACHED),
    Attempt("gain rights by a setuid program", SETUID, STOPPED, REACHED),
    Attempt("make a user namespace of its own", ENTER, STOPPED, DEPENDS),
    Attempt("write to settings of the kernel in `/proc`", KERNEL, STOPPED, DEPENDS),
    Attempt("change the mode of a device", DEVICE, STOPPED, DEPENDS),
    Attempt("use the keyring of the session", KEYRING, STOPPED, DEPENDS),
    Attempt("list the keys of the user", KEYS, STOPPED, DEPENDS),
    Attempt("use io_uring, which no filter sees into", IO_URING, STOPPED, DEPENDS),
    Attempt("trace another process", TRACE, STOPPED, DEPENDS),
    Attempt("reach the host of a virtual machine (vsock)", "socket.socket(40)", STOPPED, DEPENDS),
    Attempt("start 300 processes", FORKS, STOPPED if FOUND.counts_processes else REACHED, REACHED),
    Attempt("outlive the call in a session of its own", DETACH, STOPPED, STOPPED, survived),
    Attempt("fill the disk with 300 MB", FILL, STOPPED, REACHED),
    Attempt("write a file of 2 GB", "open('x', 'wb').truncate(2 << 30)", STOPPED, STOPPED),
    Attempt("take 3 GB of memory in one process", "bytearray(3 << 30)", STOPPED, STOPPED),
    Attempt("take more memory in several processes", SHARED, STOPPED if FOUND.cgroups else REACHED, REACHED),
    Attempt("flood its output", FLOOD, STOPPED, STOPPED, goes_on),
    Attempt("take no notice of being asked to end", STUBBORN, STOPPED, STOPPED, goes_on),
    Attempt("read from the server's stdin", "assert sys.stdin.read()", STOPPED, STOPPED),
    Attempt("ask at the terminal", "open('/dev/tty')", STOPPED, STOPPED),
]
BOUNDED = (FORKS, SHARED)
# Stopped where users' processes are counted, or where there are control groups.

KILLED = ("go on when the server is killed", STOPPED, STOPPED)


@pytest.fixture
def facts(tmp_path: Path, skills: Path) -> Iterator[Facts]:
    """What is there to be reached, all of it real."""
    name = uuid.uuid4().hex
    key, precious = tmp_path / "home" / ".ssh" / "id_ed25519", tmp_path / "outside" / "precious"
    for path in (key, precious):
        path.parent.mkdir(parents=True)
        path.write_text(SECRET)
    with_files(skills, {}, "other")
    victim = subprocess.Popen(["sleep", "600"], env={**os.environ, "SECRET": SECRET})
    with (
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as file,
        tempfile.TemporaryDirectory(dir="/tmp") as foreign,
    ):
        Path(foreign, "file").write_text(SECRET)
        for listener, place in ((abstract, f"\0{name}"), (file, f"{foreign}/socket")):
            listener.bind(place)
            listener.listen()
        yield {
            "key": str(key),
            "other": str(skills / "other" / "SKILL.md"),
            "foreign": f"{foreign}/file",
            "skill": str(skills / "a"),
            "precious": str(precious),
            "left": [f"/tmp/{name}", f"/dev/shm/{name}"],  # noqa: S108 - that is the question
            "secret": SECRET,
            "port": port.getsockname()[1],
            "socket": f"{foreign}/socket",
            "abstract": name,
            "victim": victim.pid,
            "marker": unique_seconds(),
        }
    victim.kill()
    victim.wait()


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
async def test_each_attempt_has_its_documented_result(
    attempt: Attempt, facts: Facts, make_runner: MakeRunner, isolation: Isolation, skills: Path
) -> None:
    if isolation.limiter is None:
        pytest.skip("there is no prlimit here")
    if attempt.code is SETUID and "NoNewPrivs:\t0" not in Path("/proc/self/status").read_text():
        pytest.skip("nobody gains rights here")
    begin = "import ctypes, glob, json, os, socket, sys, time\nf = json.loads(sys.argv[1])\n"
    begin += "os.chdir(os.environ['SCRATCH_DIR'])\n"
    skill = with_files(skills, {"a.py": f"{begin}{attempt.code}\nprint('reached')\n"})
    seconds = 2 if attempt.code is STUBBORN else 60
    if isolation.cgroups is not None:
        isolation = replace(isolation, cgroups=replace(isolation.cgroups, memory_bytes=MEMORY))
    host = {**os.environ, "SECRET": SECRET}
    runner = make_runner(isolation=isolation, host=host, limits=ProcessLimits(seconds, 100_000))
    result = await runner.run(skill, "a.py", [json.dumps(facts)])
    assert result.finished.ending is not ProcessEnding.NOT_STARTED, result.finished
    expected = attempt.sandbox if isolation.sandbox else attempt.plain
    outcome = REACHED if attempt.got_through(result.finished, facts) else STOPPED
    assert expected in {outcome, DEPENDS}, result.finished
    assert Path(facts["key"]).exists()


@pytest.mark.parametrize("programs_there", [["bwrap"], []], ids=["sandbox", "plain"])
async def test_a_script_of_a_server_that_is_killed_ends_with_it(
    skills: Path, tmp_path: Path, programs_there: list[str]
) -> None:
    if programs_there and FOUND.sandbox is None:
        pytest.skip(FOUND.why)
    marker = unique_seconds()
    with_files(skills, {"a.sh": 'setsid sleep "$1" & wait'})
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sleep", "setsid", "bash", "prlimit", *programs_there):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    command = [sys.executable, "-m", "server", "script", "--dir", str(skills), "a", "a.sh", marker]
    environment = {**server_environment(PATH=str(programs)), "TMPDIR": str(tmp_path)}
    server = await anyio.open_process(command, cwd=REPOSITORY, env=environment)
    try:
        assert await becomes(lambda: bool(sleepers(marker)))
    finally:
        server.kill()
        await server.aclose()
    assert await becomes(lambda: not sleepers(marker))


def test_the_documentation_lists_the_result_of_each_attempt() -> None:
    text = (REPOSITORY / "docs" / "guides" / "run-scripts.md").read_text(encoding="utf-8")
    table = text.partition("| A script tries to")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    said = {name: (sandbox.partition(",")[0], plain.partition(",")[0]) for name, sandbox, plain in rows}
    unprivileged = {each.name: (STOPPED if each.code in BOUNDED else each.sandbox, each.plain) for each in ATTEMPTS}
    assert said == {**unprivileged, KILLED[0]: KILLED[1:]}
