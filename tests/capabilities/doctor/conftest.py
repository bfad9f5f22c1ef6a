"""A machine of its own in a temporary folder, and servers that answer as a test says."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from server.capabilities.doctor.examination import examine
from server.capabilities.doctor.patient import patient_here
from server.capabilities.doctor.symptoms import Part, Symptom
from server.config.machine import Machine, current_places

Respond = Callable[["Request"], tuple[int, Mapping[str, str], bytes]]


@dataclass
class World:
    """A home directory, a folder of skills and a folder of programs, with the variables that name them."""

    home: Path
    skills: Path
    programs: Path
    monkeypatch: pytest.MonkeyPatch

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self.monkeypatch.setenv(name, value)

    def skill(self, name: str, head: str = "", folder: Path | None = None) -> Path:
        place = (folder or self.skills) / name
        place.mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Does something.\n{head}---\nDo it.\n"
        (place / "SKILL.md").write_text(text, encoding="utf-8")
        return place

    def settings(self, text: str) -> Path:
        file = self.home / ".config" / "skillserve" / "skillserve.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def program(self, body: str, name: str = "skillserve", python: str = sys.executable) -> Path:
        """Write a program of Python."""
        file = self.programs / name
        file.write_text(f"#!{python}\n{body}\n", encoding="utf-8")
        file.chmod(0o755)
        return file

    def examine(self, *parts: Part, folders: list[Path] | None = None) -> list[Symptom]:
        patient = patient_here(Machine(current_places()), os.environ, folders or [self.skills])
        return [symptom for part, symptoms in examine(patient) if not parts or part in parts for symptom in symptoms]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in [name for name in os.environ if name.startswith(("SKILLSERVE_", "XDG_"))]:
        monkeypatch.delenv(name)
    for folder in ("home", "skills", "programs", "work"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}{os.pathsep}{os.defpath}")
    monkeypatch.chdir(tmp_path / "work")
    made = World(tmp_path / "home", tmp_path / "skills", tmp_path / "programs", monkeypatch)
    made.set(SKILLSERVE_PORT="0")
    return made


@dataclass
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Served:
    """A server and the requests that it got."""

    url: str
    requests: list[Request] = field(default_factory=list)


@contextmanager
def answering(respond: Respond) -> Iterator[Served]:
    """Serve over HTTP what `respond` says."""
    served: Served

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            served.requests.append(request)
            status, headers, content = respond(request)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _handle  # noqa: N815 - names of the library

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Served(f"http://127.0.0.1:{server.server_port}/mcp")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
