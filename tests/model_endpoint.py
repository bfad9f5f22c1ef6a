"""A scripted model endpoint on loopback, with OpenAI's chat completions over real HTTP."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from skills_core.testing import Call


@dataclass(frozen=True)
class Raw:
    """A literal HTTP response."""

    body: bytes
    status: int = 200
    kind: str = "application/json"


@dataclass(frozen=True)
class Hang:
    """Delay the answer `then` until `go` is set or the client disconnects."""

    go: threading.Event = field(default_factory=threading.Event)
    then: str = ""


Answer = str | Call | list[Call] | Raw | Hang


@dataclass
class ModelEndpoint:
    """The received requests and the script: answers in order; the last answer is repeated."""

    address: str
    script: list[Answer] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when a client disconnected while it waited for an answer."""
    asked: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)
    scripts: dict[str, list[Answer]] = field(default_factory=dict)
    """Scripts by the name of the model; the number of assistant messages in the request selects the answer."""

    reply: Callable[[dict[str, Any]], Answer] | None = None
    """A function that answers instead of the scripts."""

    @property
    def model(self) -> str:
        return f"{self.address}#scripted"

    async def chat(self, request: Request) -> Response:
        asked = await request.json()
        self.headers.append(dict(request.headers))
        self.requests.append(asked)
        self.asked.set()
        answer = self.reply(asked) if self.reply else self._scripted(asked)
        if isinstance(answer, Raw):
            return Response(answer.body, answer.status, media_type=answer.kind)
        if isinstance(answer, Hang):
            while not answer.go.is_set():
                if await request.is_disconnected():
                    self.gone.set()
                    return Response(status_code=500)
                if self.closed.is_set():
                    return Response(status_code=500)
                await anyio.sleep(0.02)
            answer = answer.then
        return JSONResponse(completion(answer, len(self.requests)))

    def _scripted(self, asked: dict[str, Any]) -> Answer:
        own = self.scripts.get(asked["model"])
        spoken = sum(message["role"] == "assistant" for message in asked["messages"])
        script, number = (own, spoken) if own else (self.script, len(self.requests) - 1)
        return script[min(number, len(script) - 1)]


def completion(answer: str | Call | Sequence[Call], number: int) -> dict[str, Any]:
    """Return a chat completion of OpenAI, with 100 input and 10 output tokens."""
    message: dict[str, Any] = {"role": "assistant", "content": answer if isinstance(answer, str) else None}
    if not isinstance(answer, str):
        calls = [answer] if isinstance(answer, Call) else answer
        message["tool_calls"] = [
            {
                "id": f"call-{number}-{position}",
                "type": "function",
                "function": {
                    "name": call.tool,
                    "arguments": call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
                },
            }
            for position, call in enumerate(calls)
        ]
    finish = "stop" if isinstance(answer, str) else "tool_calls"
    return {
        "id": f"completion-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


class EndpointServer:
    """A server of many endpoints, each below a path of its own."""

    def __init__(self) -> None:
        self.root = ""
        self._open: dict[str, ModelEndpoint] = {}
        self._numbers = itertools.count()

    @contextlib.contextmanager
    def endpoint(self) -> Iterator[ModelEndpoint]:
        """Open an endpoint for the duration of the block."""
        number = str(next(self._numbers))
        endpoint = self._open[number] = ModelEndpoint(f"{self.root}/{number}/v1")
        try:
            yield endpoint
        finally:
            del self._open[number]
            endpoint.closed.set()

    async def chat(self, request: Request) -> Response:
        endpoint = self._open.get(request.path_params["number"])
        return await endpoint.chat(request) if endpoint else Response(status_code=404)


@contextlib.contextmanager
def open_endpoint_server() -> Iterator[EndpointServer]:
    """Run a server of endpoints for the duration of the block."""
    endpoints = EndpointServer()
    app = Starlette(routes=[Route("/{number}/v1/chat/completions", endpoints.chat, methods=["POST"])])
    # uvicorn's own log configuration would change loggers of this process that other tests read.
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    endpoints.root = f"http://127.0.0.1:{port}"
    try:
        yield endpoints
    finally:
        server.should_exit = True
        thread.join(5)
