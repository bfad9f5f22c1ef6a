#!/usr/bin/env python3
"""Run the two commands of the README with nothing installed but Python, make, git and coreutils.

The commands run on a clone of the last commit, in a folder that only its owner can enter, with an empty home.
Usage: `.ci/newcomer.py [--user NAME]`. `--user` runs the commands as that user, and requires root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[1]

PROGRAMS = (
    *("make", "git", "sh", "basename", "cat", "chmod", "cp", "cut", "date", "dirname", "echo", "env", "expr", "false"),
    *("head", "id", "ln", "ls", "mkdir", "mkfifo", "mktemp", "mv", "nproc", "printf", "pwd", "readlink", "realpath"),
    *("rm", "rmdir", "sleep", "sort", "stat", "tail", "tee", "test", "touch", "tr", "true", "uname", "uniq", "wc"),
)
"""make, git, a shell and the common programs of coreutils."""

NETWORK = ("PIP_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Prefixes of the variables that package downloads need."""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "newcomer", "version": "1"}},
}

START_SECONDS = 600
"""Timeout of the installation and the first start."""


def main() -> int:
    """Run both commands; return the exit code of the first failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", help="the user who runs the commands (default: the one who runs this)")
    parser.add_argument("--python", default=sys.executable, help="the interpreter (default: the one that runs this)")
    given = parser.parse_args()
    with private_folder(given.user) as folder:
        environment = prepare(folder, Path(given.python))
        owner = {"user": given.user, "group": pwd.getpwnam(given.user).pw_gid, "extra_groups": []} if given.user else {}
        clone = folder / "skillserve"

        def run(*command: str) -> int:
            return subprocess.run(command, cwd=folder, env=environment, check=False, **owner).returncode

        if given.user:
            # git refuses the repository of another user as unsafe; root can clone it.
            subprocess.run(["git", "clone", "--quiet", "--no-local", REPOSITORY, clone], check=True)
            subprocess.run(["chown", "-R", given.user, folder], check=True)
        elif run("git", "clone", "--quiet", str(REPOSITORY), str(clone)):
            return 1
        return serve(clone, environment, owner) or run("make", "-C", str(clone), "test")


@contextlib.contextmanager
def private_folder(user: str | None) -> Iterator[Path]:
    """Create a folder that only its owner can enter; remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="newcomer-"))
    folder.chmod(0o700)
    if user:
        shutil.chown(folder, user)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def prepare(folder: Path, python: Path) -> dict[str, str]:
    """Fill the folder with programs and an empty home; return the environment."""
    programs, home, temporary = (folder / name for name in ("bin", "home", "tmp"))
    for made in (programs, home, temporary):
        made.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is None:
            sys.exit(f"newcomer: {name} was not found; install it first")
        (programs / name).symlink_to(found)
    # Through a symbolic link the interpreter would not find its library.
    start = programs / "python3"
    start.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    start.chmod(0o755)
    passed = {name: value for name, value in os.environ.items() if name.upper().startswith(NETWORK)}
    return {**passed, "PATH": str(programs), "HOME": str(home), "TMPDIR": str(temporary), "CI": "true"}


def serve(clone: Path, environment: dict[str, str], owner: dict[str, object]) -> int:
    """Start `make serve`, request one response, and stop it; return 0 if it answered."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = ["make", "-C", str(clone), "serve", f"PORT={port}"]
    process = subprocess.Popen(command, env=environment, start_new_session=True, **owner)  # type: ignore[call-overload]
    try:
        answer = first_answer(f"http://127.0.0.1:{port}/mcp", process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)
    sys.stdout.write(
        f"newcomer: make serve answered {answer!r}\n" if answer else "newcomer: make serve did not answer\n"
    )
    for name in ("pytest", "mkdocs", "dbos"):
        if list(clone.glob(f".venv/lib/*/site-packages/{name}")):
            sys.stdout.write(f"newcomer: make serve installed {name}, which serving does not need\n")
            answer = ""
    sys.stdout.flush()
    return 0 if answer else 1


def first_answer(url: str, process: subprocess.Popen[bytes]) -> str:
    """Return the server's name from its first response; empty if it ends or does not answer in time."""
    head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, json.dumps(INITIALIZE).encode(), head)
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=10) as response:
            text = response.read().decode()
            result = json.loads(text[text.index("{") :])["result"]
            return str(result["serverInfo"]["name"])
        time.sleep(0.2)
    return ""


if __name__ == "__main__":
    sys.exit(main())
