"""A model endpoint on loopback: the four model APIs over HTTP, answered by a scripted model and recorded."""

from __future__ import annotations

import gzip
import json
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conformance.clients.dialects import dialect_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from starlette.requests import Request

    from conformance.clients.dialects.messages import Event, Json
    from conformance.clients.recording import Recorder
    from conformance.clients.scripted_model import AnsweringModel

__all__ = ["MODEL", "endpoint", "serving"]

MODEL = "scripted"
"""The name of the model, unless a client must be given another one."""


def endpoint(model: AnsweringModel, recorder: Recorder) -> Starlette:
    """Return the application."""
    turn = anyio.Lock()

    async def ask(request: Request) -> Response:
        path, body = request.url.path, await _body_of(request)
        if path.endswith((":countTokens", "/count_tokens")):
            return JSONResponse({"totalTokens": 1, "input_tokens": 1})
        dialect = dialect_of(path)
        if dialect is None:
            return _not_found()
        asked = dialect.read(body)
        async with turn:
            # In a thread, because a script may wait.
            reply = await anyio.to_thread.run_sync(model.answer, asked)
            recorder.write(path, body, reply)
        answer = dialect.answer(reply.parts, body.get("model", MODEL))
        if body.get("stream") or ":stream" in path:
            return Response("".join(_framed(dialect.events(answer))), media_type="text/event-stream")
        return JSONResponse(answer)

    async def look_up(request: Request) -> Response:
        if "/models" not in request.url.path:
            return _not_found()
        entry = {"id": MODEL, "object": "model", "type": "model", "created": 0, "display_name": MODEL}
        return JSONResponse({"object": "list", "data": [entry], "models": [], "has_more": False})

    return Starlette(routes=[Route("/{path:path}", ask, methods=["POST"]), Route("/{path:path}", look_up)])


async def _body_of(request: Request) -> Json:
    raw = await request.body()
    if request.headers.get("content-encoding") == "gzip":
        raw = gzip.decompress(raw)
    body: Json = json.loads(raw or b"{}")
    return body


def _not_found() -> Response:
    return JSONResponse({"error": {"type": "not_found_error", "message": "there is nothing here"}}, 404)


def _framed(events: Iterator[Event]) -> Iterator[str]:
    for event in events:
        data = event.data if isinstance(event.data, str) else json.dumps(event.data)
        yield f"event: {event.name}\ndata: {data}\n\n" if event.name else f"data: {data}\n\n"


@asynccontextmanager
async def serving(app: Starlette) -> AsyncGenerator[str]:
    """Serve an application on a free port of loopback; yields its address."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    # Connections wait in the queue of this socket until the server is up.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listening])
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = server.force_exit = True
