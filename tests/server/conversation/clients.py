"""Clients whose model and user answer questions, connected to the scripted server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import Implementation

from tests.server.sessions import PROGRAM as READER
from tests.server.sessions import REPOSITORY, Era, address, server_environment

PROGRAM = Path(__file__).with_name("program.py")


def with_tools() -> types.SamplingCapability:
    return types.SamplingCapability(tools=types.SamplingToolsCapability())


@dataclass
class Callbacks:
    """The callbacks of a client, and what it was asked."""

    sample: Callable[[types.CreateMessageRequestParams], Awaitable[Any]] | None = None
    elicit: Callable[[types.ElicitRequestFormParams], Awaitable[Any]] | None = None
    sampling: types.SamplingCapability = field(default_factory=with_tools)
    asked: list[str] = field(default_factory=list)

    async def on_sample(self, context: Any, params: types.CreateMessageRequestParams) -> Any:
        del context
        self.asked.append("sample")
        assert self.sample is not None
        return await self.sample(params)

    async def on_elicit(self, context: Any, params: Any) -> Any:
        del context
        self.asked.append(params.message)
        assert self.elicit is not None
        return await self.elicit(params)


def says(text: str) -> types.CreateMessageResultWithTools:
    return types.CreateMessageResultWithTools(role="assistant", content=types.TextContent(text=text), model="m")


async def echo(params: types.CreateMessageRequestParams) -> Any:
    block = params.messages[-1].content_as_list[-1]
    assert isinstance(block, types.TextContent)
    return says(f"said {block.text}")


async def allow(_: object) -> Any:
    return types.ElicitResult(action="accept", content={"allow": True})


@dataclass
class Connection:
    """A connection to the scripted server, and the log of its tool."""

    client: Any
    era: Era
    callbacks: Callbacks
    log: Path

    async def run(self, *steps: Mapping[str, Any], **more: Any) -> Any:
        return await self.client.call_tool("run_skill", {"steps": [*steps]} if steps else {}, **more)

    async def said(self, *steps: Mapping[str, Any]) -> list[Any]:
        result = await self.run(*steps)
        assert not result.is_error, result.content
        said: list[Any] = result.structured_content["said"]
        return said

    async def call(self, **arguments: Any) -> Any:
        return await self.client.call_tool("run_skill", arguments)

    async def request(self, steps: list[dict[str, Any]], answers: Any = None, state: str | None = None) -> Any:
        """Make a single request of the modern era; the test makes the next one."""
        return await self.client.session.call_tool(
            "run_skill", {"steps": steps}, input_responses=answers, request_state=state, allow_input_required=True
        )

    def logged(self) -> list[str]:
        return logged(self.log)

    async def until_logged(self, what: str, times: int = 1) -> None:
        await until_logged(self.log, what, times)


def logged(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


async def until_logged(log: Path, what: str, times: int = 1) -> None:
    with anyio.fail_after(60):
        while logged(log).count(what) < times:  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.02)


def program_command(transport: str, skills: Path, log: Path, *more: str) -> list[str]:
    return [sys.executable, str(PROGRAM), transport, str(skills), str(log), *more]


@asynccontextmanager
async def http_program(skills: Path, log: Path, *more: str) -> AsyncGenerator[str]:
    """Run the program over HTTP; yields its URL."""
    command = program_command("http", skills, log, *more)
    async with await anyio.open_process(
        command, cwd=REPOSITORY, env=server_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            with anyio.fail_after(120):
                yield await address(process.stderr)
        finally:
            process.terminate()


def client_for(target: Any, era: Era, callbacks: Callbacks, **more: Any) -> Client:
    return Client(
        target,
        mode="legacy" if era == "handshake" else "2026-07-28",
        sampling_callback=callbacks.on_sample if callbacks.sample else None,
        sampling_capabilities=callbacks.sampling if callbacks.sample else None,
        elicitation_callback=callbacks.on_elicit if callbacks.elicit else None,
        cache=None,
        client_info=Implementation(name=READER, version="1"),
        **more,
    )


@asynccontextmanager
async def user_of(url: str, name: str, callbacks: Callbacks) -> AsyncGenerator[Client]:
    """Connect a client of the modern era as a user of this name."""
    headers = {"Authorization": f"Bearer {name}"}
    async with (
        create_mcp_http_client(headers=headers) as http,
        client_for(streamable_http_client(url, http_client=http), "modern", callbacks) as client,
    ):
        yield client


Connect = Callable[..., AbstractAsyncContextManager[Connection]]
