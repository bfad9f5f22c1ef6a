"""A terminal of tmux in which a client runs, for what only its screen offers: typing, waiting, reading."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from typing import TYPE_CHECKING

from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Terminal"]

COLUMNS, ROWS = 160, 50

KEYS = "qzq"
"""Letters that no client shows by itself."""

MOST_KEYS = 10

ATTEMPTS = 3
"""To type a text."""

PATIENCE = 45.0
"""Seconds to wait for a text on the screen."""

QUIET = 0.7
"""Seconds without a change after which a screen is ready for the next key."""


class Terminal:
    """One pane, in which a command runs."""

    def __init__(self, root: Path, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._environment = {**environment, "TERM": "xterm-256color"}
        self._tmux = ["tmux", "-S", str(root / "tmux"), "-f", os.devnull]
        size = ("-x", str(COLUMNS), "-y", str(ROWS))
        # Kept open after the command ends, so that its last words can be read.
        command = f"{shlex.join(words)}; sleep 1000"
        self._run("new-session", "-d", *size, "-c", str(folder), "sh", "-c", command)
        self._run("set-option", "-g", "escape-time", "0")

    def _run(self, *words: str) -> str:
        command = [*self._tmux, *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=self._environment)  # noqa: S603
        if done.returncode:
            raise CheckError(f"tmux {words[0]}: {done.stderr.strip()}")
        return done.stdout

    def screen(self) -> str:
        """Return what the pane shows."""
        return self._run("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, by the names that tmux has for them."""
        self._run("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text as a person does, until the pane shows it: a client takes what comes at once for pasted.

        Raises:
            CheckError: The client does not show the text.
        """
        for _ in range(ATTEMPTS):
            for character in text:
                self._run("send-keys", "-l", "\\;" if character == ";" else character)
                time.sleep(0.03)
            self.settle()
            if text in self.screen():
                return
            self.press(*["BSpace"] * len(text))
            self.settle()
        raise CheckError(f"the client does not show {text!r}")

    def await_keys(self) -> None:
        """Type until a key shows, and take it back."""
        for _ in range(MOST_KEYS):
            self._run("send-keys", "-l", KEYS)
            if self.wait(KEYS, within=1.0):
                break
        self.press(*["BSpace"] * (MOST_KEYS * len(KEYS)))
        self.settle()

    def wait(self, *texts: str, within: float = PATIENCE) -> str | None:
        """Wait until the pane shows one of the texts; return it, None if none comes."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            shown = self.screen()
            if found := next((text for text in texts if text in shown), None):
                return found
            time.sleep(0.1)
        return None

    def settle(self, quiet: float = QUIET) -> None:
        """Wait until the screen has not changed for a while."""
        end, before, since = time.monotonic() + PATIENCE / 2, self.screen(), time.monotonic()
        while time.monotonic() < min(end, since + quiet):
            time.sleep(0.1)
            if (shown := self.screen()) != before:
                before, since = shown, time.monotonic()

    def close(self) -> None:
        """End the server of tmux, and with it the client."""
        self._run("kill-server")
