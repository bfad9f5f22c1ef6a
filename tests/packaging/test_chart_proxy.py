"""The proxy of the chart finds replicas by the cluster's DNS, and a replica that stops loses no answer."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from tests.packaging.test_deploy import HAPROXY, configured

pytestmark = [
    pytest.mark.skipif(HAPROXY is None, reason="there is no haproxy on this machine"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8"),
]

NAME = "skillserve-replicas.team.svc.cluster.local"
_A = 1
"""The type of DNS records with IPv4 addresses."""


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@dataclass
class Dns:
    """A DNS server that knows one name."""

    socket: socket.socket
    addresses: list[str]
    asked: set[str] = field(default_factory=set)

    def serve(self) -> None:
        while True:
            try:
                query, client = self.socket.recvfrom(4096)
            except OSError:
                return
            self.socket.sendto(self._answer(query), client)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while length := query[at]:
            labels.append(query[at + 1 : at + 1 + length].decode())
            at += 1 + length
        question = query[12 : at + 5]
        (kind,) = struct.unpack(">H", query[at + 1 : at + 3])
        name = ".".join(labels)
        self.asked.add(name)
        if name != NAME:
            return query[:2] + b"\x81\x83" + struct.pack(">HHHH", 1, 0, 0, 0) + question
        found = list(self.addresses) if kind == _A else []
        head = query[:2] + b"\x81\x80" + struct.pack(">HHHH", 1, len(found), 0, 0)
        records = (b"\xc0\x0c" + struct.pack(">HHIH", _A, 1, 1, 4) + socket.inet_aton(each) for each in found)
        return head + question + b"".join(records)


class Replica:
    """A server that answers with its address; answers to `/slow` wait."""

    def __init__(self, host: str, port: int) -> None:
        replica, self.host = self, host
        self.stopping = False
        self.slow_asked, self.go = threading.Event(), threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path == "/slow":
                    replica.slow_asked.set()
                    assert replica.go.wait(60)
                checked = self.path == "/ready?draining=404"
                self.send_response(404 if checked and replica.stopping else 200)
                self.send_header("Content-Length", str(len(host)))
                self.end_headers()
                self.wfile.write(host.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer((host, port), Handler)
        self.server.daemon_threads = True


@contextmanager
def served(*servers: Callable[[], None]) -> Iterator[None]:
    """Run servers in threads, which end when their sockets are closed."""
    for each in servers:
        threading.Thread(target=each, daemon=True).start()
    yield


@contextmanager
def proxied(tmp_path: Path, dns: Dns, port: int) -> Iterator[httpx2.Client]:
    """Run the proxy of the chart; its DNS server and the port of its replicas are those of the test."""
    text = configured("haproxy.cfg")
    assert "parse-resolv-conf" in text
    text = text.replace("parse-resolv-conf", f"nameserver test 127.0.0.1:{dns.socket.getsockname()[1]}")
    text = text.replace(".local:8000", f".local:{port}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        text = re.sub(r"bind :8080", f"bind fd@{listener.fileno()}", text)
        (tmp_path / "haproxy.cfg").write_text(text, encoding="utf-8")
        process = subprocess.Popen(
            [str(HAPROXY), "-db", "-f", str(tmp_path / "haproxy.cfg")],
            env={**os.environ, "POD_NAMESPACE": "team"},
            pass_fds=[listener.fileno()],
            stderr=subprocess.DEVNULL,
        )
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
                yield client
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    """Three replicas with one port."""
    with ExitStack() as stack:
        found = [Replica("127.0.0.11", 0)]
        found += [Replica(f"127.0.0.{number}", found[0].server.server_port) for number in (12, 13)]
        for each in found:
            stack.callback(each.server.server_close)
            stack.callback(each.server.shutdown)
        stack.enter_context(served(*(each.server.serve_forever for each in found)))
        yield found


@pytest.fixture
def dns(replicas: list[Replica]) -> Iterator[Dns]:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as endpoint:
        endpoint.bind(("127.0.0.1", 0))
        found = Dns(endpoint, [each.host for each in replicas])
        with served(found.serve):
            yield found


def answering(client: httpx2.Client) -> set[str]:
    """Return the replicas that answer some requests."""
    return {client.get("/mcp").text for _ in range(12)}


def test_a_replica_that_stops_finishes_its_answer_and_gets_no_other_request(
    tmp_path: Path, dns: Dns, replicas: list[Replica]
) -> None:
    with proxied(tmp_path, dns, replicas[0].server.server_port) as client:
        until(lambda: answering(client) == {each.host for each in replicas})
        assert dns.asked == {NAME}
        answers: list[str] = []
        slow = threading.Thread(target=lambda: answers.append(client.get("/slow").text))
        slow.start()
        until(lambda: any(each.slow_asked.is_set() for each in replicas))
        (stopping,) = [each for each in replicas if each.slow_asked.is_set()]
        others = {each.host for each in replicas} - {stopping.host}
        # A pod that ends drains, and the cluster's DNS no longer names it.
        stopping.stopping = True
        dns.addresses.remove(stopping.host)
        until(lambda: answering(client) == others)
        assert answers == []
        stopping.go.set()
        slow.join(60)
        assert answers == [stopping.host]
        replacement = Replica("127.0.0.14", stopping.server.server_port)
        with served(replacement.server.serve_forever):
            dns.addresses.append(replacement.host)
            until(lambda: answering(client) == {*others, replacement.host})
            replacement.server.shutdown()
            replacement.server.server_close()


@pytest.mark.parametrize(
    "path", ["/metrics", "/admin/status", "/%6detrics", "/%61dmin/status", "/admi%6E", "/metrics?x=1"]
)
def test_what_operators_ask_is_not_there_for_clients(
    tmp_path: Path, dns: Dns, replicas: list[Replica], path: str
) -> None:
    with proxied(tmp_path, dns, replicas[0].server.server_port) as client:
        until(lambda: answering(client) <= {each.host for each in replicas})
        assert client.get(path).status_code == 404
        assert client.get("/mcp").status_code == 200
