"""Failures of the hook: whatever happens, it never lets a call pass."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capabilities.guard.helpers import DENYING, Hook, call, posix
from tests.conftest import write_skill
from tests.thoroughness import EVERY_CASE, combined

OPTIONS = "from server.capabilities.guard.hook import options as m\n"


@posix
@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_output_blocks_the_call(hook: Hook, skills: Path, closing: str) -> None:
    write_skill(skills, "care", fields=DENYING)
    words = f"exec {sys.executable} -m server guard {skills} {closing}"
    for command, code in (("rm -rf /", 2 if ">&-" in closing.split() else 0), ("ls", 0)):
        done = subprocess.run(
            ["sh", "-c", words],
            input=call(command).encode(),
            capture_output=True,
            cwd=hook.home,
            env=hook.environment(),
            check=False,
        )
        assert done.returncode == code
        assert b"Traceback" not in done.stderr


@posix
def test_a_broken_pipe_blocks_the_call(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "server", "guard", str(skills)],
            input=call("rm -rf /").encode(),
            stdout=writing,
            stderr=subprocess.PIPE,
            cwd=hook.home,
            env=hook.environment(),
            check=False,
        )
    finally:
        os.close(writing)
    assert done.returncode == 2
    assert b"calls dangerous" in done.stderr


@posix
def test_a_closed_input_is_denied(hook: Hook) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m server guard <&-"],
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert done.returncode == 0
    assert b'"deny"' in done.stdout


def test_input_without_end_is_denied_at_the_deadline(hook: Hook) -> None:
    code = (
        "from server.capabilities.guard.hook import run\n"
        "from server.capabilities.guard.hook.options import HookOptions\n"
        "run.SECONDS = 0.2\n"
        "run.answer_call(HookOptions())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=hook.home,
        env=hook.environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(call().encode())
        process.stdin.flush()
        output = json.loads(process.stdout.read())["hookSpecificOutput"]
        assert process.wait(30) == 0
    assert output["permissionDecision"] == "deny"
    assert "no decision within 0.2 seconds" in output["permissionDecisionReason"]


BROKEN = {
    "while it decides": "from server.capabilities.guard.hook import decide as m; m.load_guard_skills = None",
    "of memory": "from server.capabilities.guard.hook import run as m; m.decide_call = lambda *_: bytearray(1 << 62)",
}


@pytest.mark.parametrize("code", BROKEN.values(), ids=BROKEN.keys())
def test_an_internal_error_denies_the_call(hook: Hook, code: str) -> None:
    start = "\nimport sys; from server.__main__ import main; sys.argv[1:] = ['guard']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code + start],
        input=call().encode(),
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert done.returncode == 0
    output = json.loads(done.stdout)["hookSpecificOutput"]
    assert output["permissionDecision"] == "deny"
    assert "the guard failed" in output["permissionDecisionReason"]
    assert b"Traceback" not in done.stderr


def test_a_broken_installation_blocks_the_call(hook: Hook) -> None:
    code = "import sys; sys.modules['yaml'] = None\nfrom server.__main__ import main; sys.argv[1:] = ['guard']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=call().encode(),
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the guard failed (ModuleNotFoundError" in done.stderr
    assert b"Traceback" not in done.stderr


EACH_MODULE = """
import importlib, os, sys
work, skills, said, stride = *sys.argv[1:4], int(sys.argv[4])
def answer(without):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        if without:
            sys.modules[without] = None
        os.dup2(os.open(said, os.O_RDONLY), 0)
        os.dup2(writing, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.argv[1:] = ["guard", skills]
        if without is None:
            leave = os._exit
            def tell(code):
                names = [name for name in sys.modules if name.partition(".")[0] in OURS]
                os.write(1, "\\n".join(["", *names]).encode())
                leave(code)
            os._exit = tell
        from server.__main__ import main
        main()
    os.close(writing)
    told = b""
    while part := os.read(reading, 65536):
        told += part
    os.close(reading)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told
OURS = {"server", "skills_core", "yaml", "re2", "msgspec", "json", "threading", "signal", "logging"}
code, told = answer(None)
assert code == 0 and b'"deny"' in told, (code, told)
modules = [name for name in told.decode().splitlines()[1:] if name and name not in {"server", "server.__main__", "_"}]
assert len(modules) > 40, modules
libraries = [name for name in modules if name.partition(".")[0] not in {"server", "skills_core"}]
answers = {name: answer(name) for name in libraries}
# Our modules are not imported by a library: all processes that lack one of them share the imported libraries.
for name in libraries:
    importlib.import_module(name)
ours = [name for name in modules if name not in answers]
answers |= {name: answer(name) for name in ours[::stride]}
wrong = {name: got for name, got in answers.items() if not (got[0] == 2 or got[0] == 0 and b'"deny"' in got[1])}
print(len(answers), wrong)
"""


@posix
@pytest.mark.slow
def test_no_failing_import_lets_a_call_pass(hook: Hook, skills: Path, tmp_path: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    said = tmp_path / "said"
    said.write_text(call("rm -rf /"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", EACH_MODULE, tmp_path, skills, said, "1" if EVERY_CASE else "4"],
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(b" {}\n"), done.stdout


@posix
@pytest.mark.parametrize(
    ("name", "words"),
    combined(["SIGTERM", "SIGINT", "SIGHUP", "SIGALRM"], [["skills"], ["skills", "--skill=care"]]),
)
def test_a_signal_that_ends_the_guard_blocks_the_call(hook: Hook, skills: Path, name: str, words: list[str]) -> None:
    write_skill(skills, "care", fields=DENYING)
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=skills.parent,
        env=hook.environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"it waits\n"
        process.send_signal(getattr(signal, name))
        assert process.wait(30) == 2
        assert b"ended by signal" in process.stderr.read()


WAITING = """
import os, sys
from server.capabilities.guard.hook import run as run
read_call = run.read_call
class Waiting:
    buffer = property(lambda self: self)
    def read(self, _):
        os.write(1, b"it waits\\n")
        return os.read(0, 1)
sys.stdin = Waiting()
sys.argv[1:] = ["guard", *sys.argv[1:]]
from server.__main__ import main
main()
"""

FAILING = {
    "no thread": "import threading; threading.Thread.start = lambda _: 1 / 0",
    "no memory for the answer": "import json; json.dumps = lambda *_, **__: bytearray(1 << 62)\n"
    "from server.capabilities.guard.hook import run as m; m.decide_call = None",
    "no memory for the reason": "from server.capabilities.guard.hook import run as m\n"
    "m.one_line = m.decide_call = lambda *_: bytearray(1 << 62)",
    "an end from within": "from server.capabilities.guard.hook import run as m; m.decide_call = lambda *_: sys.exit(0)",
    "an interruption": "from server.capabilities.guard.hook import run as m\n"
    "def interrupt(*_): raise KeyboardInterrupt\nm.decide_call = interrupt",
    "options that cannot be read": OPTIONS + "m.parse_plain_options = None",
    "a command line that fails": OPTIONS + "m.parse_plain_options = lambda _: None\n"
    "import server.cli.app; server.cli.app.app = None",
    "a command line that cannot be imported": OPTIONS + "m.parse_plain_options = lambda _: None\n"
    "sys.modules['typer'] = None",
    "a command line that ends otherwise": OPTIONS + "m.parse_plain_options = lambda _: None\n"
    "import server.cli.app; server.cli.app.main = lambda: sys.exit(1)",
}


@pytest.mark.parametrize("closed", [False, True], ids=["", "stderr closed"])
@pytest.mark.parametrize("code", FAILING.values(), ids=FAILING.keys())
def test_every_failure_blocks_the_call(hook: Hook, code: str, *, closed: bool) -> None:
    closing = "\nimport os; os.close(2)" if closed else ""
    start = "\nfrom server.__main__ import main; sys.argv[1:] = ['guard']; main()"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}{closing}{start}"],
        input=call().encode(),
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert done.returncode == 2
    assert closed or b"so the call is denied" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_call_is_answered_without_slow_imports(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    hook.own.write_text("guard.danger_patterns = ['DROP TABLE']\n", encoding="utf-8")
    code = (
        "import os, sys\n"
        "late = ('anyio', 'asyncio', 'click', 'httpx2', 'mcp', 'pathspec', 'pydantic', 'rich', 'skills_core.context',\n"
        "    'skills_core.rendering', 'skills_core.selection', 'sqlite3', 'tempfile', 'typer', 'watchfiles')\n"
        "os._exit = lambda code: sys.exit(f'{code} {[name for name in late if name in sys.modules]}')\n"
        "from server.__main__ import main; sys.argv[1:] = ['guard', sys.argv[1]]; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(skills)],
        input=call("rm -rf /").encode(),
        capture_output=True,
        cwd=hook.home,
        env=hook.environment(),
        check=False,
    )
    assert b'"deny"' in done.stdout
    assert done.stderr.decode().splitlines()[-1] == "0 []"
