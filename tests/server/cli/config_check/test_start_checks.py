"""What a server refuses when it starts, `config check` reports as an error before."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from server.cli.config_check.places import folder_fault
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, server_command, server_environment

SECRET = "0123456789abcdef" * 2
HTTP = "[server]\ntransport = 'http'\n[http]\nport = 0\n"
REPLICA = HTTP + "[replicas]\nredis_url = 'redis://127.0.0.1:1'\n"
ABROAD = HTTP + "insecure = true\nallowed_hosts = ['x']\n"
RUNS = HTTP + "[tools]\nenabled = ['run_skill']\n[runs]\nmodel = 'http://127.0.0.1:1/v1#m'\n"
RECORDED = HTTP + "[audit_log]\nenabled = true\n"

REFUSED = {
    "a secret file that is missing": (REPLICA + "secret_file = '/nonexist'\n", "replicas.secret_file"),
    "a secret file with a short secret": (REPLICA + "secret_file = '{short}'\n", "replicas.secret_file"),
    "a secret file that is a folder": (REPLICA + "secret_file = '{folder}'\n", "replicas.secret_file"),
    "a short secret": (REPLICA + "secret = 'short'\n", "replicas.secret"),
    "a secret that is there twice": (REPLICA + f"secret = '{SECRET} {SECRET}'\n", "replicas.secret"),
    "an unknown option of Redis": (
        HTTP + f"[replicas]\nredis_url = 'redis://127.0.0.1:1?odd=1'\nsecret = '{SECRET}'\n",
        "replicas.redis_url",
    ),
    "an audit log below a file": (RECORDED + "folder = '{short}/log'\n", "audit_log.folder"),
    "an audit log with a name that is too long": (
        RECORDED + "folder = '{folder}/" + "x" * 300 + "'\n",
        "audit_log.folder",
    ),
    "an audit log that is no path": (RECORDED + 'folder = "/a\\u0000b"\n', "audit_log.folder"),
    "an address that is none": (ABROAD + "host = 'a b'\n", "http.host"),
    "an address with its port": (ABROAD + "host = '127.0.0.1:80'\n", "http.host"),
    "an address in brackets": (ABROAD + "host = '[::1]'\n", "http.host"),
    "an address of another machine": (ABROAD + "host = '192.0.2.1'\n", "http.host"),
    "an address without a login": (HTTP + "host = '0.0.0.0'\nallowed_hosts = ['x']\n", "http.host"),
    "a reranker that is missing": (HTTP + "[search]\nreranker = 'no_such_module:f'\n", "search.reranker"),
    "a reranker that is no function": (HTTP + "[search]\nreranker = 'json:__name__'\n", "search.reranker"),
    "an unknown section": (HTTP + "[htp]\nport = 1\n", "htp"),
}
if sys.platform == "linux":
    REFUSED["an audit log where nothing can be created"] = (RECORDED + "folder = '/proc/x'\n", "audit_log.folder")

WITHOUT_RUNS = {
    "a store of an unknown kind": "store = 'mysql://x'\n",
    "a store with a port that is no number": "store = 'postgresql://u@h:zz/d'\n",
    "a store that is a folder": "store = '{folder}'\n",
    "a store below a file": "store = '{short}/runs'\n",
}


class Machine:
    """The home of a user, for real processes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.file = place / "skillserve/skillserve.toml"
        self.file.parent.mkdir()
        names = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
        self.environment = {name: str(place) for name in names}
        (place / "short").write_text("short")
        (place / "folder").mkdir()
        (place / "skills").mkdir()

    def write(self, text: str) -> None:
        for name in ("short", "folder"):
            text = text.replace(f"{{{name}}}", (self.place / name).as_posix())
        self.file.write_text(text)
        self.file.chmod(0o600)

    def errors(self) -> list[str | None]:
        """Return the keys of the errors that the command finds."""
        done = run("config", "check", "--json", **self.environment)
        found = [each for each in json.loads(done.stdout)["findings"] if each["level"] == "error"]
        assert done.returncode == bool(found)
        assert all(each["message"] and each["advice"] for each in found)
        return [each["key"] for each in found]

    def first_line_of_server(self, has: str) -> tuple[str, int | None]:
        """Start a server; return the first line of its log with a text, or its log and its exit code if it ends."""
        command = [*server_command(self.place / "skills")]
        environment = server_environment(**self.environment)
        lines = []
        with subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as server:
            assert server.stderr is not None
            for line in server.stderr:
                lines.append(line)
                if has in line:
                    server.kill()
                    return line, None
            return "".join(lines), server.wait()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path.resolve())


@pytest.mark.parametrize("fault", REFUSED)
def test_what_a_server_refuses_when_it_starts_is_an_error_of_the_check(fault: str, machine: Machine) -> None:
    text, key = REFUSED[fault]
    machine.write(text)
    said, code = machine.first_line_of_server(" serves ")
    assert code == 2, said
    assert "Traceback" not in said
    assert machine.errors() == [key]


@pytest.mark.parametrize("fault", WITHOUT_RUNS)
def test_a_store_with_which_a_server_cannot_run_skills_is_an_error_of_the_check(fault: str, machine: Machine) -> None:
    machine.write(RUNS + WITHOUT_RUNS[fault])
    said, code = machine.first_line_of_server("skills cannot be run")
    assert code is None, said
    assert machine.errors() == ["runs.store"]


@pytest.mark.parametrize(
    "text",
    [
        REPLICA + f"secret = '{SECRET}'\n",
        RECORDED + "folder = '{folder}/new/log'\n",
        RUNS + "store = '{folder}/new/runs.sqlite'\n",
        RUNS + "store = 'postgresql://u:p%40@h:5432/d'\n",
        HTTP + "[search]\nreranker = 'json:dumps'\n",
    ],
)
def test_the_check_accepts_what_a_server_starts_with_and_creates_nothing(text: str, machine: Machine) -> None:
    machine.write(text)
    before = sorted(machine.place.rglob("*"))
    assert machine.errors() == []
    assert sorted(machine.place.rglob("*")) == before
    said, code = machine.first_line_of_server(" serves ")
    assert code is None, said


def test_a_port_that_another_process_has_is_no_error_of_the_check(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        machine.write(HTTP.replace("port = 0", f"port = {taken.getsockname()[1]}"))
        assert machine.errors() == []


def test_a_path_that_replaces_the_probes_is_an_error_of_the_check(machine: Machine) -> None:
    machine.write(HTTP + "path = '/health'\n")
    assert machine.errors() == ["http.path"]


def test_a_folder_that_can_be_written_to_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert folder_fault(tmp_path) is None
    # A file system without nameless files.
    monkeypatch.setattr("server.cli.config_check.places.sys.platform", "other")
    assert folder_fault(tmp_path / "new/log") is None
    assert [*tmp_path.iterdir()] == []
