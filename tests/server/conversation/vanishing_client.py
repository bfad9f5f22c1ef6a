"""A client whose model never answers: `python vanishing_client.py handshake|modern URL-or-command STEPS`."""

from __future__ import annotations

import json
import sys
import warnings

import anyio
from mcp import StdioServerParameters

from tests.server.conversation.clients import Callbacks, client_for
from tests.server.sessions import REPOSITORY, server_environment


async def never(_: object) -> None:
    print("asked", flush=True)  # noqa: T201 - the test waits for it
    await anyio.sleep_forever()


async def main() -> None:
    warnings.simplefilter("ignore")
    era, target, steps = sys.argv[1:]
    server: object = target
    if not target.startswith("http"):
        command, *arguments = json.loads(target)
        server = StdioServerParameters(command=command, args=arguments, cwd=REPOSITORY, env=server_environment())
    async with client_for(server, "handshake" if era == "handshake" else "modern", Callbacks(sample=never)) as client:
        await client.call_tool("run_skill", {"steps": json.loads(steps)})


anyio.run(main)
