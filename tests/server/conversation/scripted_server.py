"""A server with one tool whose steps are scripted by its arguments, for tests of exchanges.

It is started by `python program.py stdio|http SKILLS LOG [SECONDS] [--auth] [--json]`. The tool `run_skill` takes
`steps`, which it does one after the other; it logs each event as a line of LOG. `{"all": [...]}` does steps at
the same time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
import uvicorn
from pydantic import AnyHttpUrl, BaseModel

from server.config.machine import current_environment
from server.config.settings.server import Transport
from server.conversation.client_exchange import ClientExchange, ExchangeLimits
from server.conversation.elicitation import user_of
from server.conversation.registry import ExchangeRegistry
from server.hosting.host import Host
from server.listing.envelope import text_block, tool_result
from server.protocol.server import SkillServer
from server.transport.http import HttpServer
from server.transport.listening import listen
from server.transport.stdio import serve_stdio
from server.wire.params import CONFIRM, CONTINUE, InvalidRequestError
from skills_core.disk.sources import explicit_sources
from skills_core.errors import SkillsError
from skills_core.interaction import Progress
from skills_core.live.library import Library
from skills_core.live.watch_options import WatchMode
from tests.server.settings import make_settings

if TYPE_CHECKING:
    from mcp.server.auth.provider import AccessToken

STEPS: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
TOOL = {
    "name": "run_skill",
    "inputSchema": {
        "type": "object",
        "properties": {"steps": STEPS, CONTINUE: {"type": "string"}, CONFIRM: {"type": "string"}},
    },
}


class Form(BaseModel):
    """A form for structured output."""

    score: float


class ScriptedServer(SkillServer):
    """The server, with a tool that asks its client."""

    def __init__(self, host: Host, log: Path, limits: ExchangeLimits, *, local: bool) -> None:
        super().__init__(host, local=local)
        self._log = log
        self.exchanges = ExchangeRegistry(limits)
        self.add_request_handler("tools/list", types.PaginatedRequestParams, self._list)
        self.add_request_handler("tools/call", types.CallToolRequestParams, self._call)

    def note(self, what: str) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(what + "\n")

    async def _list(self, *_: object) -> dict[str, Any]:
        return {"tools": [TOOL], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> dict[str, Any]:
        if params.name != "run_skill":
            raise InvalidRequestError("Unknown tool")
        arguments = params.arguments or {}
        try:
            return await self.exchanges.handle_call(ctx, arguments, partial(self._work, arguments.get("steps", [])))
        except (SkillsError, ValueError) as error:
            return tool_result([text_block(str(error))], is_error=True)

    async def _work(self, steps: list[dict[str, Any]], exchange: ClientExchange) -> dict[str, Any]:
        self.note("begun")
        try:
            said = [await self._step(step, exchange) for step in steps]
        except anyio.get_cancelled_exc_class():
            self.note("cancelled")
            raise
        self.note("done")
        return {**tool_result([text_block(json.dumps(said))]), "structuredContent": {"said": said}}

    async def _step(self, step: Mapping[str, Any], exchange: ClientExchange) -> Any:
        (name, value), *_ = step.items()
        said = await getattr(self, f"_do_{name}")(exchange, value, step)
        self.note(f"{name}: {said}")
        return said

    async def _do_confirm(self, exchange: ClientExchange, value: str, step: Mapping[str, Any]) -> Any:
        return await user_of(exchange, "refunds", by_call=step.get("by_call", True)).confirm(value)

    async def _do_ask(self, exchange: ClientExchange, value: str, step: Mapping[str, Any]) -> Any:
        return await user_of(exchange, "refunds").ask(value, step.get("choices", ()))

    async def _do_progress(self, exchange: ClientExchange, value: int, step: Mapping[str, Any]) -> Any:
        return await exchange.report(Progress(value, step.get("total"), f"step {value}"))

    async def _do_hang(self, *_: object) -> Any:
        return await anyio.sleep_forever()

    async def _do_sleep(self, _: object, value: float, __: object) -> Any:
        return await anyio.sleep(value)

    async def _do_fail(self, _: object, value: str, __: object) -> Any:
        raise ValueError(value)

    async def _do_all(self, exchange: ClientExchange, value: list[Any], _: object) -> Any:
        said = [None] * len(value)

        async def one(number: int) -> None:
            said[number] = await self._step(value[number], exchange)

        async with anyio.create_task_group() as tasks:
            for number in range(len(value)):
                tasks.start_soon(one, number)
        return said

    async def _do_race(self, exchange: ClientExchange, value: list[Any], _: object) -> Any:
        """Do steps at the same time until one is done."""

        async def one(step: Mapping[str, Any]) -> None:
            await self._step(step, exchange)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for step in value:
                tasks.start_soon(one, step)

    async def _do_sample(self, exchange: ClientExchange, text: str, _: object) -> str:
        message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
        params = types.CreateMessageRequestParams(messages=[message], max_tokens=10)
        answer = await exchange.ask(types.CreateMessageRequest(params=params))
        return "".join(block.text for block in answer.content_as_list if isinstance(block, types.TextContent))

    async def _do_agent(self, exchange: ClientExchange, given: Mapping[str, Any], _: object) -> str:
        from pydantic_ai import Agent  # noqa: PLC0415 - as the product does

        from server.conversation.client_model import ClientModel  # noqa: PLC0415

        form: Any = Form if given.get("form") else str
        agent = Agent(ClientModel(exchange), instructions="the skill's body", output_type=form)
        if given.get("tools", True):

            @agent.tool_plain
            async def danger(x: str) -> str:
                """Do something dangerous."""
                agreed = await user_of(exchange, "refunds").confirm(f"danger {x}")
                self.note(f"danger {x}: {agreed}")
                return f"did {x}" if agreed else "denied"

        try:
            result = await agent.run(given["message"])
        except Exception as error:  # noqa: BLE001 - what a test is to see
            return f"{type(error).__name__}: {error}"
        usage = result.usage
        return f"{result.output} [{usage.requests} requests, {usage.unmeasured_requests} unmeasured]"


class Tokens:
    """Accepts `alice` and `bob` as tokens of users of these names."""

    async def verify_token(self, token: str) -> AccessToken | None:
        from mcp.server.auth.provider import AccessToken  # noqa: PLC0415 - it imports most of the SDK

        known = token in {"alice", "bob"}
        return AccessToken(token=token, client_id="app", scopes=[], subject=token) if known else None


async def serve(transport: str, server: ScriptedServer, host: Host, *, auth: bool) -> None:
    async with server.exchanges.serving():
        if transport == "stdio":

            async def hang_up() -> None:
                server.exchanges.client_disconnected()

            await serve_stdio(server, at_end=hang_up)
        elif auth:
            from mcp.server.auth.settings import AuthSettings  # noqa: PLC0415 - it imports most of the SDK

            with listen(host.settings.http) as listener:
                url = AnyHttpUrl("http://127.0.0.1/")
                settings = AuthSettings(issuer_url=url, resource_server_url=url, validate_token_resource=False)
                app = server.streamable_http_app(auth=settings, token_verifier=Tokens())
                announce(listener.getsockname()[1])
                await uvicorn.Server(uvicorn.Config(app, log_config=None)).serve(sockets=[listener])
        else:
            with listen(host.settings.http) as listener:
                http = HttpServer(server, host, streams="--json" not in sys.argv)
                with http.stopped_by_signals():
                    announce(listener.getsockname()[1])
                    await http.serve(sockets=[listener])


def announce(port: int) -> None:
    print(f"  address http://127.0.0.1:{port}/mcp", file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    transport, skills, log, *more = [each for each in sys.argv[1:] if not each.startswith("--")]
    over = Transport.STDIO if transport == "stdio" else Transport.HTTP
    settings = make_settings(transport=over, port=0, watch=WatchMode.OFF, usage=False)
    host = Host(Library(explicit_sources([Path(skills)]), current_environment), settings)
    limits = ExchangeLimits(resume_seconds=float(more[0]), answer_seconds=float(more[0])) if more else ExchangeLimits()
    server = ScriptedServer(host, Path(log), limits, local=transport == "stdio")
    anyio.run(partial(serve, transport, server, host, auth="--auth" in sys.argv))
