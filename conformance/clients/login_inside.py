"""Log in with Claude Code at an identity provider, in namespaces of their own, and let it use this server.

Usage: login_inside.py claude jwt|opaque FOLDER. The results are left in FOLDER.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread

from conformance.clients.client import KEY, PACKAGES
from conformance.clients.endpoint import endpoint, serving
from conformance.clients.inside import bring_loopback_up
from conformance.clients.login_script import LoginModel, write_skill
from conformance.clients.recording import Recorder
from conformance.identity_provider import CLIENT_SECRET, identity_provider, log_in
from conformance.processes import REPOSITORY, CheckError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

PORT = 8471
URL = f"http://127.0.0.1:{PORT}/mcp"
SECONDS = 60.0
CLAUDE = str(PACKAGES / "claude/node_modules/.bin/claude")


@dataclass(frozen=True, slots=True)
class Claude:
    """Claude Code with a home folder of its own."""

    root: Path
    model: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables of each of its processes."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "TERM": "xterm",
            "ANTHROPIC_BASE_URL": self.model,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }

    async def run(self, *words: str) -> str:
        """Run a command to its end, and return what it printed."""
        with anyio.fail_after(SECONDS):
            done = await anyio.run_process(
                [CLAUDE, *words], check=False, cwd=self.root, env=self.environment, stderr=subprocess.STDOUT
            )
        return done.stdout.decode(errors="replace")

    async def log_in(self, name: str) -> str:
        """Log in at a server, which needs a terminal; return the authorization URL that the user is sent to."""
        with _terminal() as (controller, terminal):
            process = await anyio.open_process(
                [CLAUDE, "mcp", "login", name, "--no-browser"],
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
                cwd=self.root,
                env=self.environment,
                start_new_session=True,
            )
            async with process:
                with anyio.fail_after(SECONDS):
                    url = await self._url(controller)
                    callback = parse_qs(urlsplit(url).query)["redirect_uri"][0]
                    os.write(controller, f"{await log_in(url, callback)}\r".encode())
                    await process.wait()
        return url

    async def _url(self, controller: int) -> str:
        text = ""
        while (found := re.search(r"(http://127\.0\.0\.1:\d+/auth\?[^\s\x1b\x07]+)[\s\x1b\x07]", text)) is None:
            await anyio.wait_readable(controller)
            text += os.read(controller, 65_536).decode(errors="replace")
        return found[1]

    def secrets(self) -> list[str]:
        """Return the tokens that the client has stored."""
        stored = (self.root / "home/.claude/.credentials.json").read_text(encoding="utf-8")
        return re.findall(r'"(?:accessToken|refreshToken)":\s*"([^"]+)"', stored)


@contextmanager
def _terminal() -> Iterator[tuple[int, int]]:
    """Yield both ends of a terminal that is wide enough for a URL."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 4000, 0, 0))
    try:
        yield controller, terminal
    finally:
        os.close(controller)
        os.close(terminal)


@asynccontextmanager
async def _served(issuer: str, root: Path) -> AsyncGenerator[None]:
    """Serve the skill with a login."""
    write_skill(root / "skills")
    words = [sys.executable, "-m", "server", "serve", str(root / "skills"), "--transport", "http", "--port", str(PORT)]
    login = {
        "ISSUER": issuer,
        "AUDIENCE": URL,
        "REQUIRED_SCOPES": "skills",
        "INTROSPECTION_URL": f"{issuer}/token/introspection",
        "INTROSPECTION_CLIENT_ID": "skillserve",
        "INTROSPECTION_CLIENT_SECRET": CLIENT_SECRET,
    }
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(root / "server-home"),
        "PYTHONPATH": str(REPOSITORY),
        **{f"SKILLSERVE_LOGIN_{name}": value for name, value in login.items()},
    }
    with (root / "server.log").open("wb") as log:
        process = await anyio.open_process(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        async with process:
            try:
                await _wait_until_reachable()
                yield
            finally:
                process.terminate()


async def _wait_until_reachable() -> None:
    with anyio.fail_after(SECONDS):
        while True:
            try:
                async with await anyio.connect_tcp("127.0.0.1", PORT):
                    return
            except OSError:
                await anyio.sleep(0.1)


async def _main(client: str, form: str, root: Path) -> None:
    if client != "claude":
        raise CheckError(f"{client} cannot log in without a person")
    (root / "home").mkdir()
    model = endpoint(LoginModel(), Recorder(root / "requests.jsonl"))
    async with serving(model) as address, identity_provider(form) as issuer, _served(issuer, root):
        claude = Claude(root, address)
        await claude.run("mcp", "add", "--scope", "user", "--transport", "http", "skills", URL)
        results: dict[str, object] = {"url": URL, "before": await claude.run("mcp", "list")}
        asked = parse_qs(urlsplit(await claude.log_in("skills")).query)
        results |= {"resource": asked.get("resource"), "scope": asked.get("scope"), "secrets": claude.secrets()}
        results["after"] = await claude.run("mcp", "list")
        results["said"] = await claude.run("--print", "Greet me.", "--allowedTools", "mcp__skills")
    (root / "results.json").write_text(json.dumps(results, indent=2), encoding="utf-8")


if __name__ == "__main__":
    bring_loopback_up()
    anyio.run(_main, sys.argv[1], sys.argv[2], Path(sys.argv[3]))
