"""A private PostgreSQL cluster for tests: its data and its socket are in a temporary folder.

An unprivileged user runs it, with the programs of the system's package. It is removed when the tests end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg

NOBODY = 65_534
SETTINGS = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200"]

AT_THE_END = """
cat
server=$(head -n 1 "$1/data/postmaster.pid") && kill -s QUIT "$server"
while [ -e "$1/data/postmaster.pid" ] && kill -s 0 "$server"; do sleep 0.1; done
rm -rf "$1"
"""
"""Waits for the end of this process, in whichever way it ends, then stops the server and removes its folder."""


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, None where there is none."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    found = shutil.which("pg_ctl")
    places += [Path(found).parent] if found else []
    return next((place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), None)


class PrivateCluster:
    """A running PostgreSQL."""

    def __init__(self, bin_folder: Path) -> None:
        self._bin = bin_folder
        # Short: the path of a socket may have some hundred characters.
        self._folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        self._user = NOBODY if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self._folder, NOBODY, NOBODY)
        self._do("initdb", "--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "--locale=C")
        self._databases = 0
        self.start()
        self._end = subprocess.Popen(
            ["sh", "-c", AT_THE_END, "sh", self._folder], stdin=subprocess.PIPE, start_new_session=True
        )

    def start(self) -> None:
        options = " ".join([*SETTINGS, "-k", str(self._folder)])
        self._do("pg_ctl", "--wait", "--log", str(self._folder / "log"), "--options", options, "start")

    def stop(self, mode: str) -> None:
        self._do("pg_ctl", "--wait", "--mode", mode, "stop")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the server: SIGSTOP makes it accept connections and answer nothing."""
        server = int((self._folder / "data/postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        for process in (server, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._folder}"

    def new_database(self) -> str:
        """Return the URL of an empty database."""
        self._databases += 1
        name = f"test{self._databases}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def remove(self) -> None:
        self._end.communicate()

    def _do(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), "--pgdata", str(self._folder / "data"), *arguments]
        subprocess.run(
            command,
            cwd=self._folder,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
        )


class Away:
    """A server that a test sends away, and that comes back with `back` at the latest when the test ends."""

    def __init__(self, cluster: PrivateCluster) -> None:
        self._cluster = cluster
        self._how = ""

    def go(self, how: str) -> None:
        self._how = how
        if how == "stopped":
            self._cluster.stop("immediate")
        else:
            self._cluster.signal(signal.SIGSTOP)

    def back(self) -> None:
        how, self._how = self._how, ""
        if how == "stopped":
            self._cluster.start()
        elif how:
            self._cluster.signal(signal.SIGCONT)
