"""A hostile server: raw JSON-RPC over real HTTP, correct until a test tampers with it."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn

EXTENSION = "io.modelcontextprotocol/skills"
MODERN = "2026-07-28"

Params = Mapping[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class RpcError(Exception):
    """Becomes a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


@dataclass
class Raw:
    """An HTTP response as it is: `body` once, or for ever."""

    body: bytes
    status: int = 200
    endless: bool = False
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


def skill_md(name: str, fields: str = "") -> bytes:
    return f"---\nname: {name}\ndescription: Does a thing.\n{fields}---\n\nDo it.\n".encode()


def listed(uri: str, raw: bytes) -> dict[str, Any]:
    return {"uri": uri, "digest": "sha256:" + hashlib.sha256(raw).hexdigest(), "size": len(raw)}


@dataclass
class Served:
    """One skill: its entry, and the contents of each of its URIs."""

    entry: dict[str, Any]
    contents: dict[str, bytes]

    @property
    def resources(self) -> list[dict[str, Any]]:
        resources: list[dict[str, Any]] = self.entry["resources"]
        return resources

    @property
    def uri(self) -> str:
        return str(self.entry["uri"])

    def add(self, uri: str, raw: bytes) -> None:
        """List and serve one more file."""
        self.resources.append(listed(uri, raw))
        self.contents[uri] = raw


def serve_skill(path: str, files: Mapping[str, bytes] | None = None, scheme: str = "skill://") -> Served:
    """Return a truthful skill at `path`."""
    root = f"{scheme}{path}"
    name = path.rpartition("/")[2]
    contents = {f"{root}/SKILL.md": skill_md(name)}
    contents |= {f"{root}/{file}": raw for file, raw in (files or {}).items()}
    resources = [listed(uri, raw) for uri, raw in contents.items()]
    front = {"name": name, "description": "Does a thing."}
    return Served({"uri": f"{root}/SKILL.md", "frontmatter": front, "resources": resources}, contents)


@dataclass
class Hostile:
    """The application. `answers` replaces what it says to a method; a value or a function of the parameters."""

    skills: list[Served] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    extension: dict[str, Any] | None = field(default_factory=dict)
    required_header: tuple[bytes, bytes] | None = None
    always: Raw | None = None
    asked: list[tuple[str, Params]] = field(default_factory=list)
    sent: int = 0
    hung_up: anyio.Event = field(default_factory=anyio.Event)
    stopped: anyio.Event = field(default_factory=anyio.Event)
    leave: Callable[[], None] = lambda: None

    @property
    def one(self) -> Served:
        return self.skills[0]

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        await self._respond(self._response(scope, body), receive, send)

    def _response(self, scope: dict[str, Any], body: bytes) -> Raw:
        if self.required_header and self.required_header not in scope["headers"]:
            return Raw(b"", 401)
        if self.always:
            return self.always
        if scope["method"] != "POST":
            return Raw(b"", 405)
        request = json.loads(body)
        if "id" not in request:
            return Raw(b"", 202)
        envelope: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            result = self._result(request["method"], request.get("params", {}))
        except RpcError as error:
            envelope["error"] = {"code": error.code, "message": error.message}
        else:
            if isinstance(result, Raw):
                return result
            envelope["result"] = result
        return Raw(json.dumps(envelope).encode())

    def _result(self, method: str, params: Params) -> Any:
        self.asked.append((method, params))
        if method in self.answers:
            answer = self.answers[method]
            return answer(params) if callable(answer) else answer
        handlers = {
            "server/discover": self._discover,
            "skills/list": lambda _: self.complete(skills=[skill.entry for skill in self.skills]),
            "skills/get": self._get,
            "resources/read": self._read,
            "resources/directory/read": self._directory,
        }
        if method not in handlers:
            raise RpcError(-32601, "Method not found")
        return handlers[method](params)

    @staticmethod
    def complete(**fields: Any) -> dict[str, Any]:
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **fields}

    def _discover(self, _: Params) -> dict[str, Any]:
        extensions = {} if self.extension is None else {EXTENSION: self.extension}
        capabilities = {"resources": {}, "extensions": extensions}
        return self.complete(supportedVersions=[MODERN], capabilities=capabilities)

    def _get(self, params: Params) -> dict[str, Any]:
        for skill in self.skills:
            if skill.entry.get("uri") == params["uri"]:
                return self.complete(skill=skill.entry)
        raise RpcError(-32602, "No such skill")

    def _read(self, params: Params) -> dict[str, Any]:
        for skill in self.skills:
            if params["uri"] in skill.contents:
                return self.blob(params["uri"], skill.contents[params["uri"]])
        raise RpcError(-32602, "No such resource")

    def blob(self, uri: str, raw: bytes) -> dict[str, Any]:
        return self.complete(contents=[{"uri": uri, "blob": base64.b64encode(raw).decode()}])

    def _directory(self, params: Params) -> dict[str, Any]:
        prefix, children = f"{params['uri']}/", {}
        for skill in self.skills:
            for uri in skill.contents:
                if uri.startswith(prefix):
                    name, _, below = uri[len(prefix) :].partition("/")
                    child = {"uri": prefix + name, "name": name}
                    children[name] = child | ({"mimeType": "inode/directory"} if below else {})
        return {"resultType": "complete", "resources": list(children.values())}

    async def _respond(self, response: Raw, receive: Receive, send: Send) -> None:
        headers = [(name.encode(), value.encode()) for name, value in response.headers.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        if not response.endless:
            await send({"type": "http.response.body", "body": response.body})
            return

        gone = anyio.Event()

        async def notice() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()
            self.hung_up.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(notice)
            while not gone.is_set():
                await send({"type": "http.response.body", "body": response.body, "more_body": True})
                self.sent += len(response.body)
                await anyio.lowlevel.checkpoint()


class _Server(uvicorn.Server):
    """Stops at once when `leaving` is set, where uvicorn looks ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.leaving = anyio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.leaving.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield  # the test's own


@asynccontextmanager
async def running(app: Hostile) -> AsyncGenerator[str]:
    """Serve `app` on a free port; yields the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = _Server(config)

        async def serve() -> None:
            await server.serve([listener])
            app.stopped.set()

        app.leave = server.leaving.set
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            finally:
                server.leaving.set()
