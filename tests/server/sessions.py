"""Connect real clients to real servers, and record the notifications that they receive."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import Implementation

from server.hosting.host import Host

REPOSITORY = Path(__file__).parents[2]

PROGRAM = "mcp-inspector"
"""What a client calls itself that gets `structuredContent`."""

Era = Literal["handshake", "modern"]
Transport = Literal["stdio", "http"]

LIST_CHANGES = {
    "ToolListChangedNotification": "tools",
    "PromptListChangedNotification": "prompts",
    "ResourceListChangedNotification": "resources",
}


def server_command(skills: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "server", "serve", str(skills), "--log-level", "warning", *flags]


def server_environment(**settings: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
    return {
        **inherited,
        "PYTHONPATH": str(REPOSITORY),
        "SKILLSERVE_WATCH_DEBOUNCE_MS": "60",
        "SKILLSERVE_USAGE": "false",
        "SKILLSERVE_ANALYTICS": "false",
        **settings,
    }


_JOINT = re.compile(
    r"\n\n(?=The list of skills has changed|The skill \S+, which you loaded|The user's message is|More skills have"
    r"|/[\w/-]+(?:\n\n|$)|\[(?:Cut here|Left out|This is the file|This result)|There is no further news)"
)


def texts_of(result: Any) -> list[str]:
    """Return the texts of a result: what a tool says, then news, which stand in one block unless a file comes first."""
    content = result["content"] if isinstance(result, dict) else result.model_dump()["content"]
    return [text for block in content if block["type"] == "text" for text in _JOINT.split(block["text"])]


@dataclass
class Session:
    """A connected client, with the changes that the server announced to it in `told`."""

    client: Any  # an mcp.Client; Any, because tests check the types of its answers at run time
    era: Era
    told: list[str] = field(default_factory=list)
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def on_message(self, message: Any) -> None:
        kind = type(message).__name__
        if kind == "ResourceUpdatedNotification":
            self._tell(f"updated {message.params.uri}")
        elif kind in LIST_CHANGES:
            self._tell(LIST_CHANGES[kind])

    def _tell(self, what: str) -> None:
        self.told.append(what)
        self._news.set()
        self._news = anyio.Event()

    async def until_told(self, what: str) -> None:
        """Wait until the server has announced `what`."""
        await self.until_all_told([what])

    async def until_all_told(self, all_of: Iterable[str], times: int = 1) -> None:
        """Wait until the server has announced each of these at least `times` times."""
        with anyio.fail_after(60):
            while any(self.told.count(what) < times for what in all_of):
                await self._news.wait()

    async def until_enum(self, names: list[str]) -> None:
        """Wait until the activation tool offers these names; check again after each notification."""
        with anyio.fail_after(60):
            news = self._news
            while await self.enum() != names:
                await news.wait()
                news = self._news

    async def told_before(self, file: Path, uri: str) -> list[str]:
        """Return the other notifications up to, and with, a change of `file`, whose `uri` is subscribed.

        This method changes the file twice: the second announcement follows all notifications of the first change.
        """
        news = f"updated {uri}"
        for text in (b"1", b"2"):
            seen = self.told.count(news)
            file.write_bytes(text)
            await self.until_all_told([news], seen + 1)
        return sorted(each for each in self.told if each != news)

    async def enum(self) -> list[str]:
        """Return the names that the activation tool currently offers; none while no skill is loaded."""
        tools = {tool.name: tool for tool in (await self.client.list_tools()).tools}
        if "activate_skill" not in tools:
            return []
        names: list[str] = tools["activate_skill"].input_schema["properties"]["name"].get("enum", [])
        return names

    async def activate(self, name: str, **arguments: Any) -> str:
        """Return the text of an activation; some clients receive a link before it."""
        result = await self.client.call_tool("activate_skill", {"name": name, **arguments})
        assert not result.is_error, result.content
        return texts_of(result)[0]


Connect = Callable[..., AbstractAsyncContextManager[Session]]


@asynccontextmanager
async def http_server(skills: Path, **settings: str) -> AsyncGenerator[str]:
    """Run a server process on a free port; yield its URL."""
    command = server_command(skills, "--transport", "http", "--port", "0")
    async with await anyio.open_process(
        command, cwd=REPOSITORY, env=server_environment(**settings), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            with anyio.fail_after(120):
                yield await address(process.stderr)
        finally:
            process.terminate()


async def address(stderr: AsyncIterator[bytes]) -> str:
    text = ""
    async for chunk in stderr:
        text += chunk.decode()
        for line in text.splitlines():
            if line.strip().startswith("address") and text.endswith("\n"):
                return line.split()[-1]
    raise AssertionError(f"the server did not start: {text}")


@asynccontextmanager
async def open_session(
    target: Any, era: Era, subscribe: tuple[str, ...] = (), *, client_name: str = "test"
) -> AsyncGenerator[Session]:
    """Connect a client, and subscribe to all notifications."""
    session: Session

    async def on_message(message: object) -> None:
        await session.on_message(message)

    mode: ConnectMode = "legacy" if era == "handshake" else "2026-07-28"
    name = Implementation(name=client_name, version="99.0")
    async with Client(target, mode=mode, message_handler=on_message, client_info=name, cache=None) as client:
        session = Session(client, era)
        if era == "handshake":
            with warnings.catch_warnings():
                # The SDK deprecates this method, but the handshake era has no other.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                for uri in subscribe:
                    await client.session.subscribe_resource(uri)
            if isinstance(target, str):
                # Over HTTP the event stream opens in parallel with the first requests.
                await anyio.sleep(0.2)
            yield session
            return
        async with client.listen(
            tools_list_changed=True,
            prompts_list_changed=True,
            resources_list_changed=True,
            resource_subscriptions=list(subscribe),
        ):
            yield session


@dataclass
class HostedSession(Session):
    """A session with a server in this process; a test can reload its library directly."""

    host: Host = field(kw_only=True)


ConnectHosted = Callable[..., AbstractAsyncContextManager[HostedSession]]
