"""A private Redis for tests: on a socket in a temporary folder, without files of its own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import redis

PASSWORD = "sesame-0123456789"  # noqa: S105 - of a private server
SECRET = "0123456789abcdef" * 4


def program() -> str | None:
    """Return Redis's program, None where there is none."""
    return shutil.which("redis-server")


class RedisServer:
    """A Redis that can be stopped, frozen and started again at the same address."""

    def __init__(self, command: str) -> None:
        self._command = command
        # Short: the path of a socket may have some hundred characters.
        self._folder = Path(tempfile.mkdtemp(prefix="rd", dir="/tmp"))
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://:{PASSWORD}@{self._folder}/s"
        self.start()

    @property
    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def start(self) -> None:
        flags = ["--port", "0", "--unixsocket", str(self._folder / "s"), "--save", "", "--appendonly", "no"]
        flags += ["--requirepass", PASSWORD, "--dir", str(self._folder), "--daemonize", "no"]
        self._process = subprocess.Popen([self._command, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if b"ready to accept" in line.lower():
                return
        raise AssertionError("Redis did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)
