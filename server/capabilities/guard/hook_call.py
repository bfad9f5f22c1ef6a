"""Parse the tool call that a host announces, and answer the host exactly once.

Source: the hooks reference of Claude Code, read 2026-10. The call is one JSON object, accepted or refused as a whole:
ambiguous input is refused rather than repaired, because the host may interpret it differently, and then run a call that
the guard never saw. Exit code 0 with an object on stdout decides; 0 without output leaves the call to the host; 2
blocks it and takes stderr as the reason. Any other code lets the call pass, and so does a hook that outlasts the
host's patience. Hence the process only ever exits with 0 or 2.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from skills_core.diagnostics import one_line
from skills_core.guard.guard import Verdict

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue

MAX_INPUT = 32 * 1024 * 1024
"""Maximum size of one call in bytes; larger than any file that a tool writes in one call."""

_EVENT = "PreToolUse"
_MAX_EXCERPT = 100


class UnreadableCallError(Exception):
    """The input is not a call that the guard can decide on; the message says why."""


class OtherEventError(Exception):
    """The host ran the hook for another event, which expects another form of answer."""


@dataclass(frozen=True, slots=True)
class HookCall:
    """A tool call. `directory` is the host's working directory and `mode` its permission mode; None if not given."""

    tool: str
    arguments: dict[str, JsonValue]
    directory: Path | None = None
    mode: str | None = None


def read_call(raw: bytes) -> HookCall:
    """Parse the input of the hook.

    Raises:
        UnreadableCallError: the input is not one JSON object with a tool's name and its arguments.
        OtherEventError: the input announces an event other than a tool call.
    """
    fields = _parse_object(raw)
    event = fields.get("hook_event_name", _EVENT)
    if event != _EVENT:
        raise OtherEventError(f"the event is {one_line(str(event))[:_MAX_EXCERPT]}; this hook handles only {_EVENT}")
    tool, arguments = fields.get("tool_name"), fields.get("tool_input")
    directory, mode = fields.get("cwd"), fields.get("permission_mode")
    if not isinstance(tool, str) or not tool:
        raise UnreadableCallError("it has no tool_name, a string with the tool's name")
    if not isinstance(arguments, dict):
        raise UnreadableCallError("it has no tool_input, an object with the tool's arguments")
    if directory is not None and not (isinstance(directory, str) and _is_absolute(directory)):
        raise UnreadableCallError("its cwd is not the absolute path of a directory")
    if mode is not None and not isinstance(mode, str):
        raise UnreadableCallError("its permission_mode is not a string")
    return HookCall(tool, arguments, None if directory is None else Path(directory), mode)


def _is_absolute(directory: str) -> bool:
    return "\0" not in directory and Path(directory).is_absolute()


def _parse_object(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_INPUT:
        raise UnreadableCallError(f"it is larger than {MAX_INPUT} bytes")
    if not raw.strip():
        raise UnreadableCallError("standard input is empty; the hook reads the call from it as JSON")
    try:
        # Windows shells prepend a byte order mark to piped text.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableCallError(f"it is not UTF-8, from byte {error.start} on") from None
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
        if "\\u" in text:
            _refuse_lone_surrogates(value)
    except json.JSONDecodeError as error:
        raise UnreadableCallError(f"it is not one JSON document: {error}") from None
    except RecursionError:
        raise UnreadableCallError("it is nested too deeply") from None
    except ValueError:
        # Python refuses longer integers, because parsing them takes quadratic time.
        raise UnreadableCallError("it has an integer of more than 4300 digits") from None
    if not isinstance(value, dict):
        raise UnreadableCallError("it is not a JSON object")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object and refuse duplicate keys: some hosts take the first value and others the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise UnreadableCallError(f"an object has the key {one_line(twice)[:_MAX_EXCERPT]} twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableCallError(f"{name} is not JSON")


def _refuse_lone_surrogates(value: object) -> None:
    """Refuse lone surrogates: the host replaces them with something else when it runs the call."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise UnreadableCallError("a string in it has a lone surrogate, half of a character") from None


DONE: Final = 0
BLOCKED: Final = 2

_PERMISSIONS: Final = {Verdict.DENY: "deny", Verdict.CONFIRM: "ask"}

_STDOUT: Final = 1
_STDERR: Final = 2


class Answer:
    """The single answer of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given = False

    def give(self, verdict: Verdict, reason: str) -> int:
        """Write the decision and return the exit code; block any later call until the first one ends the process."""
        with self._lock:
            if self._given:
                threading.Event().wait()
            self._given = True
        if verdict is Verdict.ALLOW:
            return DONE
        output = {
            "hookEventName": "PreToolUse",
            "permissionDecision": _PERMISSIONS[verdict],
            "permissionDecisionReason": reason,
        }
        try:
            _write(_STDOUT, json.dumps({"hookSpecificOutput": output}) + "\n")
        except OSError:
            # The host does not read stdout, so it would not ask the user either: block.
            write_error(reason)
            return BLOCKED
        return DONE

    @contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Deny the call and exit the process unless the block answers within `seconds`."""

        def expire() -> None:
            code = BLOCKED
            try:
                reason = f"The call is denied: the guard made no decision within {seconds:g} seconds."
                code = self.give(Verdict.DENY, reason)
            finally:
                os._exit(code)

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def write_error(message: str) -> None:
    """Write a message to stderr, unless it is closed."""
    try:
        _write(_STDERR, f"skillserve: {message}\n")
    except OSError:
        return


def _write(handle: int, text: str) -> None:
    """Write the whole text, bypassing Python's streams: a failing flush at exit would change the exit code."""
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(handle, data) :]
