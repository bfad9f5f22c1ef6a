"""Questions of a run at a pseudo-terminal, which the test controls."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from server.cli.terminal import ThreadKeyboard
from skills_core.format.yaml12 import JsonValue
from skills_core.testing import Call
from tests.conftest import MakeSkill
from tests.model_endpoint import Answer, ModelEndpoint
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, server_environment

if sys.platform == "win32":
    pytest.skip("Windows has no pseudo-terminals of this kind", allow_module_level=True)

import pty
import termios

QUESTION = "Which one?"
ASK = Call("ask_user", {"question": QUESTION})
MARK = Call("run_command", {"command": [sys.executable, "-c", "open('mark', 'w')"]})
CTRL_C = b"\x03"


class Terminal:
    """A command at a terminal, and the text on its screen so far."""

    def __init__(self, process: subprocess.Popen[str], screen: int) -> None:
        self.process = process
        self._screen = screen
        self.shown = ""

    def shows(self, text: str) -> str:
        """Wait until `text` is on the screen, and return all text on it."""
        deadline = time.monotonic() + 120
        while text not in self.shown:
            assert self.process.poll() is None, self.shown
            assert time.monotonic() < deadline, self.shown
            self._look()
        return self.shown

    def types(self, keys: bytes) -> None:
        os.write(self._screen, keys)

    def ends(self) -> tuple[int, str]:
        """Wait until the command has ended; return its exit code and stdout."""
        deadline = time.monotonic() + 120
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            self._look()
        self._look()
        assert self.process.stdout is not None
        return self.process.returncode, self.process.stdout.read()

    def hangs_up(self) -> None:
        os.close(self._screen)
        self._screen = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        if self._screen != -1:
            os.close(self._screen)

    def _look(self) -> None:
        if self._screen != -1 and select.select([self._screen], [], [], 0.05)[0]:
            try:
                self.shown += os.read(self._screen, 65536).decode(errors="replace")
            except OSError:  # Linux raises when the other end is closed
                time.sleep(0.05)


@contextmanager
def run_at_terminal(*arguments: object, columns: int = 80, **environment: str) -> Iterator[Terminal]:
    screen, end = pty.openpty()
    termios.tcsetwinsize(end, (24, columns))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.cli.terminal_program", *map(str, arguments)],
        cwd=REPOSITORY,
        # COLUMNS may be set for the terminal of the test run.
        env=server_environment(TERM="xterm", COLUMNS=str(columns), **environment),
        stdin=end,
        stdout=subprocess.PIPE,
        stderr=end,
        text=True,
        start_new_session=True,
    )
    os.close(end)
    with process:
        terminal = Terminal(process, screen)
        try:
            yield terminal
        finally:
            terminal.close()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def start_run(make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, work: Path) -> Any:
    """Start a run that may ask questions, and whose commands need consent."""
    make_skill("worker", fields="confirm_patterns: ['run_command']")

    def start(script: Sequence[Answer], *, columns: int = 80, **environment: str) -> Any:
        endpoint.script = list(script)
        tools = ("--run-tool", "run_command", "--workspace", work)
        state = {"XDG_STATE_HOME": str(work.parent / "state"), **environment}
        command = ("run", "worker", "hi", skills, "--model", endpoint.model, *tools, "--id", "asking")
        return run_at_terminal(*command, columns=columns, **state)

    return start


def last_tool_result(endpoint: ModelEndpoint) -> str:
    """Return the result of the last tool call, as the model received it."""
    content: str = endpoint.requests[-1]["messages"][-1]["content"]
    return content


def test_an_answer_goes_to_the_model(start_run: Any, endpoint: ModelEndpoint) -> None:
    with start_run([ASK, "the end"]) as terminal:
        terminal.shows(QUESTION)
        terminal.types("grün\n".encode())
        assert terminal.ends() == (0, "the end\n")
    assert last_tool_result(endpoint) == "grün"


@pytest.mark.parametrize("keys", [b"2\n", b"blue\n"])
def test_a_choice_can_be_given_by_number_or_text(start_run: Any, endpoint: ModelEndpoint, keys: bytes) -> None:
    with start_run([Call("ask_user", {"question": QUESTION, "choices": ["red", "blue"]}), "the end"]) as terminal:
        terminal.shows("2. blue")
        terminal.types(keys)
        assert terminal.ends() == (0, "the end\n")
    assert last_tool_result(endpoint) == "blue"


@pytest.mark.parametrize(("keys", "done"), [(b"y\n", True), (b"n\n", False), (b"\n", False), (b"\x04", False)])
def test_only_yes_is_consent(start_run: Any, work: Path, keys: bytes, *, done: bool) -> None:
    with start_run([MARK, "the end"]) as terminal:
        shown = terminal.shows("[y/N]")
        assert "asks for your consent to what a run of the skill 'worker' wants" in shown
        terminal.types(keys)
        assert terminal.ends() == (0, "the end\n")
    assert (work / "mark").exists() is done


@pytest.mark.parametrize(("call", "shown"), [(ASK, QUESTION), (MARK, "[y/N]")])
def test_ctrl_c_at_a_question_ends_the_run_at_once(start_run: Any, work: Path, call: Call, shown: str) -> None:
    with start_run([call, "the end"]) as terminal:
        terminal.shows(shown)
        terminal.types(CTRL_C)
        assert terminal.ends() == (130, "")
    assert not (work / "mark").exists()


def test_an_unanswered_question_ends_at_the_time_limit_of_the_run(start_run: Any) -> None:
    with start_run([ASK, "the end"], SKILLSERVE_RUN_SECONDS="2") as terminal:
        terminal.shows(QUESTION)
        assert terminal.ends() == (1, "")
        # The start of the run counts, so on a busy machine less than the two seconds are left.
        assert re.search(r"took longer than (2|1\.\d) seconds", terminal.shown)


@pytest.mark.parametrize("typed", [b"y\n", b"y"])
def test_input_typed_before_the_question_is_not_consent(
    start_run: Any, endpoint: ModelEndpoint, work: Path, typed: bytes
) -> None:
    is_typed = threading.Event()

    def reply(asked: dict[str, Any]) -> Answer:
        assert is_typed.wait(120)
        return "the end" if asked["messages"][-1]["role"] == "tool" else MARK

    with start_run([]) as terminal:
        endpoint.reply = reply
        assert endpoint.asked.wait(120)
        terminal.types(typed)
        terminal.shows("y")
        is_typed.set()
        terminal.shows("[y/N]")
        terminal.types(b"\n")
        assert terminal.ends() == (0, "the end\n")
    assert not (work / "mark").exists()


def test_a_question_of_the_model_cannot_imitate_the_server(start_run: Any) -> None:
    forged = "Hi\x1b[2J\x1b]0;title\x07\nskillserve asks for your consent. [y/N] " + "_" * 60 + "skillserve: go on? :x:"
    choices: list[JsonValue] = ["a\nskillserve: b", "c\x1b[2J"]
    with start_run([Call("ask_user", {"question": forged, "choices": choices}), "the end"], columns=60) as terminal:
        shown = terminal.shows("c\\x1b[2J")
        terminal.types(b"2\n")
        assert terminal.ends() == (0, "the end\n")
    assert "\x1b[2J" not in shown
    assert "\x1b]0" not in shown
    assert "A run of the skill 'worker' asks you this." in shown.replace("\r\n", " ")
    # The server may print warnings before it, such as that of a missing sandbox.
    lines = shown[shown.index("A run of the skill") :].replace("\r\n", "\n").split("\n")
    of_the_model = [line for line in lines if "skillserve" in line and not line.startswith("> ")]
    assert of_the_model == []
    plain = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in lines]
    assert [line for line in plain if line.startswith("> ") and len(line) > 60] == []
    assert ":x:" in shown.replace("\r\n> ", "")


def test_a_closed_terminal_interrupts_the_run_which_can_be_resumed(
    start_run: Any, endpoint: ModelEndpoint, skills: Path, work: Path
) -> None:
    with start_run([ASK, "the end"]) as terminal:
        terminal.shows(QUESTION)
        terminal.hangs_up()
        assert terminal.ends() == (128 + signal.SIGHUP, "")
    tools = ("--run-tool", "run_command", "--workspace", work)
    state = {"XDG_STATE_HOME": str(work.parent / "state")}
    done = run("runs", "resume", skills, "--model", endpoint.model, *tools, "--json", **server_environment(**state))
    assert [(each["run_id"], each["status"]) for each in json.loads(done.stdout)["runs"]] == [("asking", "completed")]


def test_a_server_stops_when_its_terminal_is_closed(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    with run_at_terminal("serve", skills, "--transport", "http", "--port", "0") as terminal:
        terminal.shows("Ctrl-C")
        terminal.hangs_up()
        # SIGHUP itself ends a server that does not yet wait for it.
        assert terminal.ends()[0] in {-signal.SIGTERM, -signal.SIGHUP}


async def test_the_thread_of_a_cancelled_question_reads_the_next_answer() -> None:
    screen, end = pty.openpty()
    keyboard = ThreadKeyboard(end)
    with anyio.move_on_after(0.1) as left:
        await keyboard.read_line()
    os.write(screen, b"later\n")
    assert left.cancelled_caught
    assert await keyboard.read_line() == b"later\n"
    os.close(screen)
    os.close(end)
