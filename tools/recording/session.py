"""Play the session in a terminal of three panes: an edit, the server, and the client that shows the change.

Usage: session.py CLIENT SCENARIO FOLDER, as `conformance.clients.sandbox` starts it. No model takes part: the client
lists the skills of the server as slash commands. FOLDER/session.cast is the recording, in the format asciicast 2.
"""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

from conformance.clients.client import KEY, PACKAGES, write_used_home
from conformance.clients.inside import bring_loopback_up
from conformance.suite import NODE
from tools.recording.screens import Cast, write_cast

COLUMNS = 86
PANES = {"edit": ("Your terminal", 5), "server": ("skillserve", 9), "client": ("Claude Code", 14)}
"""The title and the height of each pane, from top to bottom."""

HOME = "/srv"
"""Where the session has its home, so that no folder of this machine is shown."""

SKILL = """\
---
name: standup
description: Writes my standup from yesterday's commits.
---

Run `git log --since=yesterday --author="$(git config user.email)" --oneline`. Write one line for each change.
"""
LOOK = "grep description skills/standup/SKILL.md"
EDIT = "sed -i 's/commits/commits, in three bullets/' skills/standup/SKILL.md"
BEFORE, AFTER = "yesterday's commits.", "commits, in three bullets."

OFFER, READY = "auto mode", "manual mode on"
"""Of the client: what it may offer instead of its prompt, and its line of state."""

PATIENCE = 60.0
"""Seconds to wait for a text on the screen; only a program that hangs takes so long."""

READING = 2.0
"""Seconds in which a viewer reads what is new."""

REPOSITORY_BIN = Path(sys.executable).parent


class Terminal:
    """Panes of tmux, each with a shell."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self._tmux = ["tmux", "-S", str(root / "tmux"), "-f", os.devnull]
        self._environment = environment
        self.rows = sum(height + 1 for _, height in PANES.values())
        shell = ["bash", "--norc", "--noprofile"]
        self.tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(self.rows), "-c", environment["HOME"], *shell)
        options = {
            "status": "off",
            "focus-events": "on",
            "pane-border-status": "top",
            "pane-border-lines": "single",
            "pane-border-style": "fg=colour244",
            "pane-active-border-style": "fg=colour244",
            "pane-border-format": " #{@title} ",
            "default-terminal": "tmux-256color",
        }
        for name, value in options.items():
            self.tmux("set-option", "-g", name, value)
        self._places: dict[str, str] = {}
        for number, (name, (title, _)) in enumerate(PANES.items()):
            if number:
                self.tmux("split-window", "-v", "-c", environment["HOME"], *shell)
                self.tmux("select-layout", "even-vertical")
            self._places[name] = self.tmux("display-message", "-p", "#{pane_id}").strip()
            self.tmux("set-option", "-p", "@title", title)
        for name, (_, height) in PANES.items():
            self.tmux("resize-pane", "-t", self._places[name], "-y", str(height))

    def tmux(self, *words: str) -> str:
        """Run a command of tmux, and return its output."""
        done = subprocess.run([*self._tmux, *words], check=True, capture_output=True, text=True, env=self._environment)
        return done.stdout

    def focus(self, pane: str) -> None:
        """Put the cursor into a pane."""
        self.tmux("select-pane", "-t", self._places[pane])

    def press(self, pane: str, *keys: str) -> None:
        """Press keys, by the names that tmux has for them."""
        self.tmux("send-keys", "-t", self._places[pane], *keys)

    def type(self, pane: str, text: str, seconds: float = 0.0) -> None:
        """Type a text, with a pause after each character."""
        for character in text:
            # A semicolon ends a command of tmux.
            self.tmux("send-keys", "-t", self._places[pane], "-l", "\\;" if character == ";" else character)
            time.sleep(seconds)

    def text(self, pane: str) -> str:
        """Return what a pane shows, with single spaces."""
        return " ".join(self.tmux("capture-pane", "-p", "-t", self._places[pane]).split())

    def wait(self, pane: str, text: str) -> None:
        """Wait until a pane shows a text.

        Raises:
            TimeoutError: It does not.
        """
        end = time.monotonic() + PATIENCE
        while text not in (shown := self.text(pane)):
            if time.monotonic() > end:
                raise TimeoutError(f"the pane {pane} does not show {text!r}, but: {shown}")
            time.sleep(0.05)

    def attach(self) -> tuple[int, int]:
        """Attach a terminal, and return its process and its descriptor."""
        process, descriptor = pty.fork()
        if process == 0:
            os.execvpe("tmux", [*self._tmux, "attach"], {**self._environment, "TERM": "screen-256color"})  # noqa: S606
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, COLUMNS, 0, 0))
        return process, descriptor


class Recorder(threading.Thread):
    """Read what a terminal receives, with the time of each part."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._descriptor = descriptor
        self._begin = time.monotonic()
        self.events: list[tuple[float, str]] = []

    def run(self) -> None:
        """Read until the terminal closes."""
        left = b""
        while True:
            try:
                part = os.read(self._descriptor, 65536)
            except OSError:
                return
            if not part:
                return
            # A character may continue in the next part.
            text, left = _decoded(left + part)
            self.events.append((time.monotonic() - self._begin, text))


def _decoded(data: bytes) -> tuple[str, bytes]:
    try:
        return data.decode(), b""
    except UnicodeDecodeError as error:
        if len(data) - error.start >= 4:  # noqa: PLR2004 - a character has at most four bytes
            raise
        return data[: error.start].decode(), data[error.start :]


def prepare(root: Path) -> dict[str, str]:
    """Make a home with a skill, where the client has been used before; return the environment of both."""
    home = root / "home"
    skill = home / "skills/standup/SKILL.md"
    for folder in (skill.parent, home / "project"):
        folder.mkdir(parents=True)
    skill.write_text(SKILL, encoding="utf-8")
    # Of the namespace of this session alone.
    subprocess.run(["mount", "--bind", home, HOME], check=True)
    servers = {"skills": {"type": "http", "url": "http://127.0.0.1:8000/mcp"}}
    write_used_home(home, f"{HOME}/project", mcpServers=servers)
    binaries = [
        REPOSITORY_BIN,
        PACKAGES / "claude/node_modules/.bin",
        NODE.parent,
        "/usr/local/bin",
        "/usr/bin",
        "/bin",
    ]
    return {
        "PATH": os.pathsep.join(map(str, binaries)),
        "HOME": HOME,
        "TERM": "screen-256color",
        "LANG": "C.UTF-8",
        "PS1": "$ ",
        "ANTHROPIC_API_KEY": KEY,
        # Nothing answers there: no model takes part.
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


def play(terminal: Terminal) -> None:
    """Edit the skill, and wait until the client shows it."""
    terminal.focus("client")
    time.sleep(READING / 2)
    terminal.type("client", "/stand", 0.12)
    terminal.wait("client", BEFORE)
    time.sleep(READING)
    terminal.focus("edit")
    terminal.type("edit", LOOK, 0.03)
    terminal.press("edit", "Enter")
    time.sleep(READING)
    terminal.type("edit", EDIT, 0.03)
    time.sleep(READING / 2)
    terminal.press("edit", "Enter")
    terminal.wait("client", AFTER)
    time.sleep(3 * READING)


def decline_offers(terminal: Terminal) -> None:
    """Wait until the client is ready, and answer no to what it offers at its first start."""
    terminal.wait("client", "❯")  # noqa: RUF001 - its prompt
    # An offer comes a moment later than the prompt.
    time.sleep(2 * READING)
    if OFFER in terminal.text("client"):
        terminal.press("client", "Down", "Enter")
    terminal.wait("client", READY)


def main(root: Path) -> None:
    """Start the server and the client, attach a terminal, and record the session."""
    environment = prepare(root)
    terminal = Terminal(root, environment)
    try:
        terminal.type("server", "clear; skillserve serve ~/skills --transport http\n")
        terminal.wait("server", "Ctrl-C")
        terminal.type("client", "cd project; clear; claude\n")
        decline_offers(terminal)
        terminal.press("edit", "C-l")
        process, descriptor = terminal.attach()
        recorder = Recorder(descriptor)
        recorder.start()
        play(terminal)
        events = tuple(recorder.events)
    finally:
        terminal.tmux("kill-server")
    os.waitpid(process, 0)
    write_cast(root / "session.cast", Cast(COLUMNS, terminal.rows, events))


if __name__ == "__main__":
    if shutil.which("tmux") is None:
        sys.exit("tmux is missing; install it first (on Debian and Ubuntu: apt install tmux)")
    bring_loopback_up()
    main(Path(sys.argv[3]))
