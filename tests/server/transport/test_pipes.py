"""Messages over pipes stay whole, even if a send is cancelled."""

from __future__ import annotations

import json
import os
import sys

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

if sys.platform == "win32":
    pytest.skip("the SDK's transport is used there", allow_module_level=True)

from server.transport.stdio import PipeWriter


def message(text: str) -> SessionMessage:
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": text}))


async def test_a_send_that_is_cancelled_halfway_does_not_break_other_messages() -> None:
    source, sink = os.pipe()
    writer = PipeWriter(sink)
    text = b""

    async def read() -> None:
        nonlocal text
        while text.count(b"\n") < 2:
            await anyio.wait_readable(source)
            text += os.read(source, 1 << 16)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.send, message("x" * 1_000_000))
            await anyio.wait_all_tasks_blocked()
            # The second has not begun, and is not sent at all.
            tasks.start_soon(writer.send, message("never"))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                await writer.send(message("next"))
    finally:
        os.close(source)
        os.close(sink)
    assert [len(json.loads(line)["params"]["data"]) for line in text.splitlines()] == [1_000_000, 4]
