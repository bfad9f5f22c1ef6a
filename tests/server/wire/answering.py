"""A server that answers each connection with the same bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@asynccontextmanager
async def answering(answer: bytes, *, endless: bool = False, silent: bool = False) -> AsyncIterator[str]:
    async def handle(stream: SocketStream) -> None:
        async with stream:
            try:
                await stream.receive()
                await stream.send(answer)
                while endless:
                    await stream.send(b"a" * 65_536)
                if silent:
                    await anyio.sleep_forever()
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                pass

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/keys"  # noqa: S610 - anyio's
        tasks.cancel_scope.cancel()
