"""The exit code of `skillserve script`, and where its script starts."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import MakeSkill
from tests.server.sessions import REPOSITORY, server_environment

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="these programs are those of POSIX")

EXIT = b"import sys; print('out'); sys.exit(int(sys.argv[1]))"
KILL = b"import os, signal; os.kill(os.getpid(), getattr(signal, 'SIGKILL'))"

SKILLSERVE = [sys.executable, "-m", "server"]


def run_script(skills: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SKILLSERVE, "script", "--dir", str(skills), *map(str, arguments)],
        cwd=REPOSITORY,
        env=server_environment(**environment),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.splitlines()[-1] if done.stderr else ""


@pytest.mark.parametrize("code", [0, 1, 2, 3, 77, 123, 124, 125, 127, 255])
def test_the_scripts_exit_code_is_the_commands_and_any_but_0_is_told_on_stderr(
    skills: Path, make_skill: MakeSkill, code: int
) -> None:
    make_skill("a", files={"a.py": EXIT})
    done = run_script(skills, "a", "a.py", code)
    assert (done.returncode, done.stdout) == (code, "out\n")
    told = last_line(done) == f"skillserve: a.py of the skill a ended with exit code {code}"
    assert told if code else "exit code" not in done.stderr


@POSIX
@pytest.mark.parametrize("sandbox", ["if it works", "none"])
def test_a_signal_that_ends_a_script_is_told_as_shells_do(
    skills: Path, make_skill: MakeSkill, tmp_path: Path, sandbox: str
) -> None:
    make_skill("a", files={"a.py": KILL})
    done = run_script(skills, "a", "a.py", **({"PATH": str(tmp_path)} if sandbox == "none" else {}))
    assert done.returncode == 128 + 9, done.stderr
    assert "ended with exit code 137" in last_line(done) or "was ended by signal 9 (SIGKILL)" in last_line(done)


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        (b"import time; time.sleep(600)", {"SKILLSERVE_SCRIPT_SECONDS": "1"}),
        (b"print('x' * 100_000)", {"SKILLSERVE_SCRIPT_OUTPUT_BYTES": "1000"}),
    ],
    ids=["time", "output"],
)
def test_the_exit_code_of_a_script_that_reached_a_limit_is_124(
    skills: Path, make_skill: MakeSkill, code: bytes, limit: dict[str, str]
) -> None:
    make_skill("a", files={"a.py": code})
    done = run_script(skills, "a", "a.py", **limit)
    assert done.returncode == 124
    assert "was ended" in last_line(done)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("b", "a.py"), "There is no active skill 'b'"),
        (("a", "b.py"), "has no file 'b.py'"),
        (("a", "SKILL.md"), "nothing tells how to run it"),
        (("a", "needs.sh"), "requires no-such-program, which is not installed"),
    ],
)
def test_the_exit_code_of_a_script_that_is_not_run_is_125(
    skills: Path, make_skill: MakeSkill, arguments: tuple[str, ...], why: str
) -> None:
    make_skill("a", files={"a.py": EXIT, "needs.sh": b"#!/usr/bin/env no-such-program\n"})
    done = run_script(skills, *arguments, 0)
    assert (done.returncode, done.stdout) == (125, "")
    assert why in done.stderr


@pytest.mark.parametrize("arguments", [("--no-such-option", "a", "a.py"), ("a",), ("--cwd", "home", "a", "a.py")])
def test_the_exit_code_for_wrong_use_is_2(skills: Path, make_skill: MakeSkill, arguments: tuple[str, ...]) -> None:
    make_skill("a", files={"a.py": EXIT})
    done = run_script(skills, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: skillserve script" in done.stderr


def test_an_invalid_setting_is_wrong_use_too(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("a", files={"a.py": EXIT})
    done = run_script(skills, "--cwd", "workspace", "a", "a.py", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--cwd: scripts.cwd: 'workspace': expected skill or scratch, because no workspace is set" in done.stderr


def test_a_script_starts_in_the_skills_folder_or_where_a_flag_says(
    skills: Path, make_skill: MakeSkill, tmp_path: Path
) -> None:
    make_skill("a", files={"scripts/list.py": b"import os; print(*sorted(os.listdir()))"})
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "in.txt").touch()
    given = ("--workspace", workspace)
    for flags, here in [
        ((), "SKILL.md scripts"),
        (("--cwd", "scratch"), ""),
        (given, "in.txt"),
        ((*given, "--cwd", "skill"), "SKILL.md scripts"),
        ((*given, "--cwd", "scratch"), ""),
        ((*given, "--cwd", "workspace"), "in.txt"),
    ]:
        done = run_script(skills, *flags, "a", "scripts/list.py")
        assert (done.returncode, done.stdout.strip()) == (0, here), (flags, done.stderr)


def script_process(skills: Path, *arguments: object, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*SKILLSERVE, "script", "--dir", str(skills), *map(str, arguments)],
        cwd=REPOSITORY,
        env=server_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(("code", "told"), [(0, 125), (7, 7)])
def test_output_that_nothing_reads_is_told_and_is_no_exit_code_of_the_script(
    skills: Path, make_skill: MakeSkill, flags: tuple[str, ...], code: int, told: int
) -> None:
    make_skill("a", files={"a.py": EXIT})
    with script_process(skills, *flags, "a", "a.py", code) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        lines = process.stderr.read().decode().splitlines()
    assert process.returncode == told
    assert lines[-1].startswith("skillserve: ")
    assert ("cannot be written" in lines[-1]) == (code == 0)
    assert "Traceback" not in "".join(lines)


def test_messages_that_nothing_reads_change_no_exit_code(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("a", files={"a.py": b"import sys; print('x' * 100, file=sys.stderr); " + EXIT})
    for code in (0, 2):
        with script_process(skills, "a", "a.py", code) as process:
            assert process.stderr is not None
            process.stderr.close()
            assert process.stdout is not None
            assert process.stdout.read() == b"out\n"
        assert process.returncode == code


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["text", "json"])
def test_output_that_is_read_in_part_is_told(
    skills: Path, make_skill: MakeSkill, flags: tuple[str, ...], unbuffered: str
) -> None:
    make_skill("a", files={"a.py": b"print('x' * 1_000_000)"})
    with script_process(skills, *flags, "a", "a.py", PYTHONUNBUFFERED=unbuffered) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr is not None
        assert b"cannot be written" in process.stderr.read()
    assert process.returncode == 125


@POSIX
def test_closed_streams_are_no_internal_error(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("a", files={"a.py": EXIT})
    command = shlex.join([*SKILLSERVE, "script", "--dir", str(skills), "a", "a.py"])
    for closed, code, expected in [(">&-", 0, 125), (">&-", 2, 2), ("2>&-", 0, 0), ("2>&-", 2, 2), (">&- 2>&-", 2, 2)]:
        done = subprocess.run(
            ["sh", "-c", f"{command} {code} {closed}"],
            cwd=REPOSITORY,
            env=server_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expected, (closed, done.stderr)
        assert "Traceback" not in done.stderr


@POSIX
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_that_ends_the_command_ends_the_script_and_is_told(
    skills: Path, make_skill: MakeSkill, tmp_path: Path, name: str
) -> None:
    number = signal.Signals[name]
    make_skill("a", files={"a.py": b"import pathlib, time; pathlib.Path('started').touch(); time.sleep(600)"})
    workspace, temporary = tmp_path / "workspace", tmp_path / "temporary"
    workspace.mkdir()
    temporary.mkdir()
    with script_process(skills, "--workspace", workspace, "a", "a.py", TMPDIR=str(temporary)) as process:
        until = time.monotonic() + 60
        while not (workspace / "started").exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    line = f"skillserve: ended by signal {int(number)} ({number.name}), and the script with it"
    assert stderr.decode().splitlines()[-1] == line
    assert not [*temporary.iterdir()]
