"""The input of the hook: every unreadable or ambiguous call is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.guard.hook_call import HookCall, OtherEventError, UnreadableCallError, read_call
from tests.capabilities.guard.helpers import DENYING, Hook, call, decision
from tests.conftest import write_skill

HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "standard input is empty"),
    "blanks": (b" \n\t ", "standard input is empty"),
    "a word": (b"ls", "not one JSON document"),
    "half a document": (b'{"tool_name": "Bash", "tool_inp', "not one JSON document"),
    "two documents": ((call() + call()).encode(), "not one JSON document: Extra data"),
    "two lines": ((call() + "\n" + call()).encode(), "not one JSON document: Extra data"),
    "a list": (b"[]", "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "NaN": (b'{"tool_name": "Bash", "tool_input": {"n": NaN}}', "NaN is not JSON"),
    "Infinity": (b'{"tool_name": "Bash", "tool_input": {"n": -Infinity}}', "-Infinity is not JSON"),
    "deep lists": (b'{"tool_name": "Bash", "tool_input": {"a": ' + b"[" * 100_000, "nested too deeply"),
    "deep objects": (b'{"tool_name": "Bash", "tool_input": ' + b'{"a":' * 100_000, "nested too deeply"),
    "a long number": (
        b'{"tool_name": "Bash", "tool_input": {"n": ' + b"9" * 5000 + b"}}",
        "more than 4300 digits",
    ),
    "latin-1": (b'{"tool_name": "Bash", "tool_input": {"command": "caf\xe9"}}', "not UTF-8, from byte 52 on"),
    "utf-16": (call().encode("utf-16"), "not UTF-8"),
    "overlong": (b'{"tool_name": "Bash", "tool_input": {"command": "\xc0\xaf"}}', "not UTF-8"),
    "encoded half": (b'{"tool_name": "Bash", "tool_input": {"command": "\xed\xa0\x80"}}', "not UTF-8"),
    "half a character": (b'{"tool_name": "Bash", "tool_input": {"command": "\\ud83d"}}', "half of a character"),
    "half in a key": (b'{"tool_name": "Bash", "tool_input": {"\\ude00": 1}}', "half of a character"),
    "a control character": (b'{"tool_name": "Bash", "tool_input": {"command": "a\nb"}}', "Invalid control character"),
    "a repeated tool": (b'{"tool_name": "Read", "tool_name": "Bash", "tool_input": {}}', "the key tool_name twice"),
    "a repeated argument": (
        b'{"tool_name": "Bash", "tool_input": {"command": "ls", "\\u0063ommand": "rm -rf /"}}',
        "the key command twice",
    ),
    "no tool": (b'{"tool_input": {}}', "no tool_name"),
    "an empty tool": (b'{"tool_name": "", "tool_input": {}}', "no tool_name"),
    "a tool that is a number": (b'{"tool_name": 1, "tool_input": {}}', "no tool_name"),
    "no arguments": (b'{"tool_name": "Bash"}', "no tool_input"),
    "arguments as text": (b'{"tool_name": "Bash", "tool_input": "rm -rf /"}', "no tool_input"),
    "arguments as a list": (b'{"tool_name": "Bash", "tool_input": ["rm", "-rf"]}', "no tool_input"),
    "null for arguments": (b'{"tool_name": "Bash", "tool_input": null}', "no tool_input"),
    "a relative cwd": (b'{"tool_name": "Bash", "tool_input": {}, "cwd": "."}', "cwd is not the absolute path"),
    "an empty cwd": (b'{"tool_name": "Bash", "tool_input": {}, "cwd": ""}', "cwd is not the absolute path"),
    "a cwd with NUL": (b'{"tool_name": "Bash", "tool_input": {}, "cwd": "/a\\u0000b"}', "cwd is not the absolute"),
    "a cwd that is a list": (b'{"tool_name": "Bash", "tool_input": {}, "cwd": []}', "cwd is not the absolute path"),
    "a mode that is a list": (b'{"tool_name": "Bash", "tool_input": {}, "permission_mode": []}', "permission_mode"),
}


@pytest.mark.parametrize("said, why", HOSTILE.values(), ids=HOSTILE.keys())  # noqa: PT006 - pairs of a table
def test_unreadable_input_is_denied_with_the_reason(hook: Hook, said: bytes, why: str) -> None:
    answer = hook.ask(said, "--no-skills")
    assert answer is not None
    assert answer[0] == "deny"
    assert "the guard cannot read the hook's input" in answer[1]
    assert why in answer[1]


@given(st.binary() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps).map(str.encode))
def test_any_bytes_are_a_call_or_refused(said: bytes) -> None:
    with suppress(UnreadableCallError, OtherEventError):
        assert isinstance(read_call(said), HookCall)


def test_a_byte_order_mark_is_ignored(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    assert decision(hook.ask(b"\xef\xbb\xbf" + call("rm -rf /").encode(), skills)) == "deny"
    assert hook.ask(b"\xef\xbb\xbf" + call().encode() + b"\r\n", skills) is None


@pytest.mark.parametrize("event", ["PostToolUse", "PermissionRequest", "BeforeTool", 1, None])
def test_another_event_is_blocked_with_the_reason(hook: Hook, event: object) -> None:
    done = hook.run(call(hook_event_name=event))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"this hook handles only PreToolUse" in done.stderr


def test_input_beyond_the_limit_is_denied(hook: Hook) -> None:
    answer = hook.ask(b" " * (32 * 1024 * 1024 + 1), "--no-skills")
    assert answer is not None
    assert "larger than 33554432 bytes" in answer[1]


def test_too_deep_arguments_are_denied_if_there_is_a_pattern(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    deep: Any = "ls"
    for _ in range(300):
        deep = [deep]
    answer = hook.ask(call(tool_input={"a": deep}), skills)
    assert answer is not None
    assert answer[0] == "deny"
    assert "deeper than 200 levels" in answer[1]


def test_ten_megabytes_are_searched(hook: Hook, skills: Path) -> None:
    write_skill(skills, "care", fields=DENYING)
    text = "é" * 5_000_000
    assert decision(hook.ask(call(text + " rm -rf /", tool="Write"), skills)) == "deny"
    assert hook.ask(call(text, tool="Write"), skills) is None
