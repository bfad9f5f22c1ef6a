"""Run `python -m server` with stdin as its controlling terminal, as a shell does."""

from __future__ import annotations

import fcntl
import runpy
import sys
import termios

if __name__ == "__main__":
    fcntl.ioctl(sys.stdin.fileno(), termios.TIOCSCTTY, 0)
    runpy.run_module("server", run_name="__main__", alter_sys=True)
