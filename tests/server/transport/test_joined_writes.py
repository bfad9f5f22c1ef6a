"""The head of a response goes out with its body."""

from __future__ import annotations

import asyncio

from server.transport.connections import JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Recorder(asyncio.Transport):
    """A transport that notes what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[bytes | str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.done.append(bytes(data))

    def close(self) -> None:
        self.done.append("close")

    def abort(self) -> None:
        self.done.append("abort")


def joined() -> tuple[JoinedWrites, Recorder]:
    recorder = Recorder()
    return JoinedWrites(recorder, asyncio.get_running_loop()), recorder


async def test_a_head_is_written_together_with_the_body() -> None:
    transport, recorder = joined()
    for data in (HEAD, b"body", b"", b"more"):
        transport.write(data)
    assert recorder.done == [HEAD + b"body", b"more"]


async def test_a_head_without_a_body_is_written_when_the_loop_runs() -> None:
    transport, recorder = joined()
    transport.write(HEAD)
    transport.write(b"")
    assert recorder.done == []
    await asyncio.sleep(0)
    assert recorder.done == [HEAD]
    transport.write(b"late")
    assert recorder.done == [HEAD, b"late"]


async def test_closing_writes_the_head_first_and_aborting_does_not() -> None:
    transport, recorder = joined()
    transport.write(HEAD)
    transport.close()
    await asyncio.sleep(0)
    assert recorder.done == [HEAD, "close"]
    transport, recorder = joined()
    transport.write(HEAD)
    transport.abort()
    assert recorder.done == ["abort"]


async def test_pipelined_responses_keep_their_order() -> None:
    transport, recorder = joined()
    for data in (HEAD, HEAD, b"body"):
        transport.write(data)
    assert b"".join(part for part in recorder.done if isinstance(part, bytes)) == HEAD + HEAD + b"body"
