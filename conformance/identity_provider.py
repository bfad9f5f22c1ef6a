"""Run a real identity provider on loopback, and log in at its development pages as a user would."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import anyio
import httpx2

from conformance.processes import CheckError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["CLIENT_SECRET", "MODULES", "USER", "identity_provider", "log_in"]

MODULES = Path(os.environ.get("SKILLSERVE_TEST_NODE_MODULES") or Path(__file__).with_name("node_modules"))
"""Where npm installs oidc-provider and the Node that runs it."""

CLIENT_SECRET = "a secret of the client"  # noqa: S105 - of a provider that forgets it when it ends
"""The secret of the client `skillserve`, which may ask the provider about tokens."""

USER = "anna"

_START_SECONDS = 60.0
_MOST_STEPS = 20


@asynccontextmanager
async def identity_provider(form: str) -> AsyncGenerator[str]:
    """Yield the issuer of a provider whose access tokens are of the form `jwt` or `opaque`."""
    node, script = MODULES / ".bin/node", Path(__file__).with_suffix(".mjs")
    command = [str(node) if node.exists() else "node", str(script), str(MODULES), form]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        if process.stdout is None:  # pragma: no cover - it is a pipe
            raise CheckError("the identity provider has no output")
        try:
            text = ""
            with anyio.fail_after(_START_SECONDS):
                while (found := re.search(r"issuer (\S+)\n", text)) is None:
                    text += (await process.stdout.receive()).decode()
            yield found[1]
        finally:
            process.terminate()


async def log_in(url: str, callback: str) -> str:
    """Follow an authorization URL as a user who logs in and consents; return the URL below `callback` at its end.

    Raises:
        CheckError: the provider shows a page that is no step of a login.
    """
    async with httpx2.AsyncClient() as http:
        for _ in range(_MOST_STEPS):
            answer = await http.get(url)
            if answer.status_code == httpx2.codes.OK:
                prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
                action = re.search(r'action="([^"]+)"', answer.text)
                if prompt is None or action is None:
                    raise CheckError(f"no page of a login: {answer.text[:300]}")
                form = {"prompt": prompt[1], "login": USER, "password": "any"}
                answer = await http.post(urljoin(url, action[1]), data=form)
            if "location" not in answer.headers:
                raise CheckError(f"HTTP {answer.status_code}: {answer.text[:300]}")
            url = urljoin(url, answer.headers["location"])
            if url.startswith(callback):
                return url
    raise CheckError("the login did not end")
