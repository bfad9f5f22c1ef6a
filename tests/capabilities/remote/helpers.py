"""Helpers that connect the remote client to servers and inspect its results."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from server.capabilities.remote.client import RemoteServer, connect
from server.capabilities.remote.operations import RemoteOutcome, verify_server
from server.capabilities.remote.skills import RemoteSkill
from server.wire.address import Address
from skills_core import Diagnostic, Severity
from skills_core.remote.installation import ORIGIN_FILE
from tests.capabilities.remote.hostile import Hostile, running
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import DIAGNOSTIC
from tests.server.sessions import REPOSITORY, server_environment

MIB = 1024 * 1024

ANSWER = {
    "type": "object",
    "required": ["server", "protocol", "skills", "diagnostics"],
    "properties": {
        "server": {"type": "string"},
        "protocol": {"type": ["string", "null"]},
        "diagnostics": {"type": "array", "items": DIAGNOSTIC},
        "skills": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["uri", "name", "verified", "files", "bytes", "diagnostics"],
                "properties": {
                    "verified": {"type": "boolean"},
                    "files": {"type": "integer"},
                    "bytes": {"type": "integer"},
                    "diagnostics": {"type": "array", "items": DIAGNOSTIC},
                    "state": {"enum": ["written", "replaced", "unchanged", "included", "refused"]},
                    "folder": {"type": ["string", "null"]},
                },
            },
        },
    },
}


async def skillserve(*arguments: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "server", *map(str, arguments)]
    with anyio.fail_after(60):
        return await anyio.run_process(
            command, check=False, cwd=REPOSITORY, env={**server_environment(), **environment}
        )


async def verified(url: str, *names: str) -> RemoteOutcome:
    with anyio.fail_after(60):
        return await verify_server(Address.parse(url), names, lambda _: None)


def codes(diagnostics: tuple[Diagnostic, ...] | list[Diagnostic]) -> set[str]:
    return {diagnostic.code.value for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR}


def faults(outcome: RemoteOutcome) -> set[str]:
    """Return the codes of all errors, of the server and of its skills."""
    found = codes(outcome.diagnostics)
    for result in outcome.results:
        assert isinstance(result, RemoteSkill)
        found |= codes(result.diagnostics)
    assert outcome.succeeded == (not found and bool(outcome.results))
    return found


@asynccontextmanager
async def connected(app: Hostile) -> AsyncGenerator[RemoteServer]:
    async with running(app) as url, connect(Address.parse(url)) as server:
        yield server


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ORIGIN_FILE)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def varied(make_skill: MakeSkill) -> None:
    """Write skills that have everything: odd names, bytes of all kinds, nesting, and one name twice."""
    make_skill("plain", fields="license: MIT\ndate: 2026-01-02\nanswer: yes\nnumber: 1.0")
    make_skill("odd", files={"a b/c%.md": b"text", "bin": bytes(range(256)), "empty": b"", "caf\u00e9/#?.md": b"\r\n"})
    make_skill("outer", files={"z.md": b"z"})
    make_skill("outer/inner", files={"x.md": b"x"})
    make_skill("acme/refunds")
    make_skill("corp/refunds")
