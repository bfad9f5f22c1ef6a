"""While the SDK is imported, the first requests are answered; nothing is lost, and nothing is answered twice."""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

if sys.platform == "win32":
    pytest.skip("the pipes of Windows cannot be waited for", allow_module_level=True)

from mcp_types import JSONRPCNotification, JSONRPCResponse

from server.protocol.early_answers import ACKNOWLEDGED, EarlyAnswer, EarlyAnswers
from server.transport.early_stdio import Opening, answer_while_loading
from server.transport.stdio import Answered
from tests.conftest import write_skill
from tests.server.openings import (
    INITIALIZED,
    OPENINGS,
    Message,
    converse,
    envelope,
    host_of,
    initialize,
    line_of,
    request,
)

SECONDS = 30


class Client:
    """The client's ends of two pipes, and the import, which ends when `loaded` is set."""

    def __init__(self) -> None:
        self.source, self._stdin = os.pipe()
        self._stdout, self.sink = os.pipe()
        self.loaded = threading.Event()
        self.text = b""

    def load(self) -> None:
        assert self.loaded.wait(SECONDS)

    def write(self, text: bytes) -> None:
        os.write(self._stdin, text)

    def flood(self, size: int, tries: int) -> None:
        """Write so many bytes, or as many as the server reads before it lets `tries` attempts pass."""
        os.set_blocking(self._stdin, False)
        while size > 0 and tries > 0:
            try:
                size -= os.write(self._stdin, b"x" * (1 << 12))
            except BlockingIOError:
                tries -= 1
                os.sched_yield()

    def leave(self) -> None:
        os.close(self._stdin)
        self._stdin = -1

    def stop_reading(self) -> None:
        os.close(self._stdout)
        self._stdout = -1

    def read_line(self) -> Message:
        while b"\n" not in self.text:
            assert select.select([self._stdout], [], [], SECONDS)[0]
            self.text += os.read(self._stdout, 1 << 16)
        line, _, self.text = self.text.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def received_all(self) -> bytes:
        while select.select([self._stdout], [], [], 0)[0]:
            self.text += os.read(self._stdout, 1 << 16)
        return self.text

    def close(self) -> None:
        for descriptor in (self.source, self._stdin, self._stdout, self.sink):
            if descriptor >= 0:
                os.close(descriptor)


@pytest.fixture
def client() -> Iterator[Client]:
    connected = Client()
    yield connected
    connected.close()


@contextmanager
def alongside(work: Callable[[], None]) -> Iterator[None]:
    """Run the client's part in another thread, and raise what fails in it."""
    faults: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as fault:  # noqa: BLE001 - raised below
            faults.append(fault)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(SECONDS)
    assert not faults, faults


def echo(line: bytes) -> EarlyAnswer | None:
    """Answer each line that begins with a question mark."""
    return EarlyAnswer(line + b"!\n", b"silent " + line + b"\n", line.decode()) if line.startswith(b"?") else None


def test_lines_are_answered_before_the_import_ends_and_all_go_on_in_their_order(client: Client) -> None:
    def play() -> None:
        client.write(b"left 1\n\n?a\nleft 2\n?b\n?par")
        while client.received_all() != b"?a!\n?b!\n":
            pass
        client.loaded.set()

    with alongside(play):
        opening = answer_while_loading(client.load, echo, client.source, client.sink)
    received = b"left 1\n\nsilent ?a\nleft 2\nsilent ?b\n?par"
    assert opening == Opening(client.source, client.sink, received, frozenset({"?a", "?b"}))


@given(st.lists(st.sampled_from([b"?a\n", b"left\n", b"\n", b"?", b"b", b"\n\n"]), max_size=12))
def test_nothing_is_lost_however_the_bytes_come(parts: list[bytes]) -> None:
    client = Client()
    text = b"".join(parts)

    def play() -> None:
        for part in parts:
            client.write(part)
        client.loaded.set()

    try:
        with alongside(play):
            opening = answer_while_loading(client.load, echo, client.source, client.sink)
        rest = b""
        while select.select([client.source], [], [], 0)[0]:
            rest += os.read(client.source, 1 << 16)
        assert (opening.received + rest).replace(b"silent ", b"") == text
        answers = client.received_all() + opening.unsent
        assert answers.count(b"!\n") == opening.received.count(b"silent ")
    finally:
        client.close()


def test_an_exception_of_the_import_is_raised_after_the_thread_has_ended(client: Client) -> None:
    def load() -> None:
        raise ImportError("no SDK")

    before, interval = set(threading.enumerate()), sys.getswitchinterval()
    with pytest.raises(ImportError, match="no SDK"):
        answer_while_loading(load, echo, client.source, client.sink)
    # Threads of earlier tests may end meanwhile.
    assert set(threading.enumerate()) <= before
    assert sys.getswitchinterval() == interval


def test_a_request_whose_answer_fails_is_left_to_the_server(client: Client) -> None:
    def fail(_: bytes) -> EarlyAnswer | None:
        client.loaded.set()
        raise LookupError

    client.write(b"?a\n")
    opening = answer_while_loading(client.load, fail, client.source, client.sink)
    assert opening == Opening(client.source, client.sink, b"?a\n")


def test_an_interrupt_is_raised_after_the_thread_has_ended(client: Client) -> None:
    def fail(_: bytes) -> EarlyAnswer | None:
        client.loaded.set()
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    client.write(b"?\n")
    with pytest.raises(KeyboardInterrupt):
        answer_while_loading(client.load, fail, client.source, client.sink)
    assert set(threading.enumerate()) <= before


def test_a_client_that_leaves_early_gets_its_answers_and_the_end_is_known(client: Client) -> None:
    def play() -> None:
        client.write(b"?a\nleft")
        client.leave()
        while client.received_all() != b"?a!\n":
            pass
        client.loaded.set()

    with alongside(play):
        opening = answer_while_loading(client.load, echo, client.source, client.sink)
    # The end may be read later, when the import ends first.
    rest = b"" if opening.ended else os.read(client.source, 100)
    assert (opening.received + rest).removesuffix(b"\n") == b"silent ?a\nleft"


def test_a_client_that_stopped_reading_does_not_end_the_server(client: Client) -> None:
    def play() -> None:
        client.stop_reading()
        client.write(b"?a\n")
        client.write(b"left\n?b\n")
        client.loaded.set()

    with alongside(play):
        opening = answer_while_loading(client.load, echo, client.source, client.sink)
    while not opening.received.endswith(b"?b\n") and select.select([client.source], [], [], 0)[0]:
        opening = opening._replace(received=opening.received + os.read(client.source, 100))
    assert opening.received.replace(b"silent ", b"") == b"?a\nleft\n?b\n"
    assert opening.unsent == b""


def test_a_client_that_does_not_read_does_not_hold_up_the_import(client: Client) -> None:
    def long(line: bytes) -> EarlyAnswer | None:
        client.loaded.set()
        return EarlyAnswer(line + b"x" * 1_000_000 + b"\n", line + b"\n", "silent")

    client.write(b"?\n")
    opening = answer_while_loading(client.load, long, client.source, client.sink)
    assert len(client.received_all() + opening.unsent) == 1_000_002
    assert opening.unsent


def test_a_client_that_sends_without_end_is_not_read_without_end(client: Client) -> None:
    def play() -> None:
        client.flood(1 << 21, tries=2000)
        client.loaded.set()

    with alongside(play):
        opening = answer_while_loading(client.load, echo, client.source, client.sink)
    assert len(opening.received) < 1 << 20


async def served(skills: Path, lines: list[bytes], early: int) -> list[Message]:
    """Return all answers to the lines, of which the first `early` come while the SDK is imported."""
    host, client = host_of(skills), Client()
    text = b"".join(line + b"\n" for line in lines[:early])

    def play() -> None:
        client.write(text)
        while True:
            client.received_all()
            if not select.select([client.source], [], [], 0)[0]:
                break
        client.loaded.set()

    try:
        with alongside(play):
            opening = answer_while_loading(client.load, EarlyAnswers(host).answer, client.source, client.sink)
        assert opening.received.count(b"\n") == early
        answers = [json.loads(line) for line in (client.received_all() + opening.unsent).splitlines()]
        later = b"".join(line + b"\n" for line in lines[early:])
        return answers + await converse(host, opening.received + later, opening._replace(unsent=b""))
    finally:
        client.close()


def in_order(messages: list[Message]) -> list[Message]:
    """Sort messages; requests of the server lose their metadata, in which the SDK may name a span of its own."""
    plain = [{**each, "params": {}} if {"id", "method"} <= each.keys() else each for each in messages]
    return sorted(plain, key=lambda message: json.dumps(message, sort_keys=True))


CALL = request(98, "tools/call", {"name": "activate_skill", "arguments": {"name": "plain"}})
MODERN_CALL = {**CALL, "id": 99, "params": {**CALL["params"], "_meta": envelope("anyone", {})}}


@pytest.mark.parametrize("name", OPENINGS)
async def test_a_conversation_is_the_same_wherever_the_server_takes_over(name: str, tmp_path: Path) -> None:
    write_skill(tmp_path, "plain")
    opening = OPENINGS[name]
    call = CALL if opening[0]["method"] == "initialize" else MODERN_CALL
    lines = [line_of(message) for message in [*opening, call]]
    expected = in_order(await served(tmp_path, lines, 0))
    assert any(answer["id"] == call["id"] and "result" in answer for answer in expected if "id" in answer)
    for early in range(1, len(lines) + 1):
        assert in_order(await served(tmp_path, lines, early)) == expected


async def test_an_answered_request_can_be_cancelled_and_its_id_used_again(tmp_path: Path) -> None:
    write_skill(tmp_path, "plain")
    messages = [
        initialize("anyone", "2025-11-25", {}),
        INITIALIZED,
        request(1, "tools/list"),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        request(1, "prompts/list"),
    ]
    answers = await served(tmp_path, [line_of(message) for message in messages], len(messages))
    assert [next(iter(answer["result"])) for answer in answers if answer["id"] == 1] == ["tools", "prompts"]


async def test_an_acknowledged_stream_can_be_cancelled_and_its_id_used_again(tmp_path: Path) -> None:
    listen = request(7, "subscriptions/listen", {"_meta": envelope("anyone", {}), "notifications": {}})
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    for early in range(4):
        answers = await served(tmp_path, [line_of(message) for message in (listen, cancel, listen)], early)
        assert [each["method"] for each in answers if "method" in each].count(ACKNOWLEDGED) >= 1 + (early > 0)
        assert any(each.get("id") == 7 for each in answers)


async def test_the_stream_after_a_cancelled_one_is_acknowledged(tmp_path: Path) -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    listen = request(7, "subscriptions/listen", {"_meta": envelope("anyone", {}), "notifications": {}})
    # The server has cancelled the first stream before it acknowledged it.
    received = line_of(cancel) + b"\n" + line_of(listen) + b"\n"
    answers = await converse(host_of(tmp_path), received, Opening(-1, -1, streams=frozenset({7})))
    assert answers[0]["method"] == ACKNOWLEDGED


async def test_what_was_answered_is_dropped_once() -> None:
    answered = Answered(["early-1"], [7])
    response = JSONRPCResponse(jsonrpc="2.0", id="early-1", result={})
    meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": 7}}
    acknowledgement = JSONRPCNotification(jsonrpc="2.0", method=ACKNOWLEDGED, params=meta)
    other = JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params=meta)
    assert [answered.covers(each) for each in (response, response, other)] == [True, False, False]
    assert [answered.covers(each) for each in (acknowledgement, acknowledgement)] == [True, False]
    await answered.wait()


async def test_the_rest_of_an_answer_is_written_by_the_server(tmp_path: Path) -> None:
    for number in range(300):
        write_skill(tmp_path, f"skill-{number}", "Does a long thing. " * 40)
    messages = [request(number, "prompts/list", {"_meta": envelope("anyone", {})}) for number in range(3)]
    host, client = host_of(tmp_path), Client()
    answers = EarlyAnswers(host)

    def answer(line: bytes) -> EarlyAnswer | None:
        client.loaded.set()
        return answers.answer(line)

    client.write(b"".join(line_of(message) + b"\n" for message in messages))
    opening = answer_while_loading(client.load, answer, client.source, client.sink)
    assert opening.unsent
    text = client.received_all() + b""
    rest = await converse(host, opening.received, opening, text)
    client.close()
    assert [answer["id"] for answer in rest] == [0, 1, 2]
    assert all(len(answer["result"]["prompts"]) == len(rest[0]["result"]["prompts"]) for answer in rest)
