"""What a host says of a call that it is about to make: one JSON object, understood or refused as a whole.

Source: the hooks reference of Claude Code, read 2026-10. What is odd is refused rather than mended, for the host may
read it in another way, and run what nobody has looked at.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue

__all__ = ["MAX_INPUT", "HookCall", "OtherEventError", "UnreadableCallError", "read_call"]

MAX_INPUT = 32 * 1024 * 1024
"""Most bytes of one call: tools write files, but none of this size."""

_EVENT = "PreToolUse"
_SHOWN = 100


class UnreadableCallError(Exception):
    """What came is no call that can be judged; the message says what is wrong with it."""


class OtherEventError(Exception):
    """The host runs the hook at another event, whose answers have another form."""


@dataclass(frozen=True, slots=True)
class HookCall:
    """A call of a tool. `directory` is where the host works, `mode` its mode of permissions; None where not told."""

    tool: str
    arguments: dict[str, JsonValue]
    directory: Path | None = None
    mode: str | None = None


def read_call(raw: bytes) -> HookCall:
    """Understand what a host wrote.

    Raises:
        UnreadableCallError: it is not one JSON object with the name of a tool and its arguments.
        OtherEventError: it tells of another event than a call that is about to be made.
    """
    fields = _object_of(raw)
    event = fields.get("hook_event_name", _EVENT)
    if event != _EVENT:
        raise OtherEventError(f"the event is {one_line(str(event))[:_SHOWN]}; this is a hook for {_EVENT} alone")
    tool, arguments = fields.get("tool_name"), fields.get("tool_input")
    directory, mode = fields.get("cwd"), fields.get("permission_mode")
    if not isinstance(tool, str) or not tool:
        raise UnreadableCallError("it has no tool_name, the name of the tool as text")
    if not isinstance(arguments, dict):
        raise UnreadableCallError("it has no tool_input, the object of the tool's arguments")
    if directory is not None and not (isinstance(directory, str) and _is_place(directory)):
        raise UnreadableCallError("its cwd is not the absolute path of a directory")
    if mode is not None and not isinstance(mode, str):
        raise UnreadableCallError("its permission_mode is no text")
    return HookCall(tool, arguments, None if directory is None else Path(directory), mode)


def _is_place(directory: str) -> bool:
    return "\0" not in directory and Path(directory).is_absolute()


def _object_of(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_INPUT:
        raise UnreadableCallError(f"it has more than {MAX_INPUT} bytes")
    if not raw.strip():
        raise UnreadableCallError("nothing came; the hook reads the call as JSON from its standard input")
    try:
        # Shells of Windows put a mark before what they pass on.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableCallError(f"it is no UTF-8, from byte {error.start} on") from None
    try:
        value = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant)
        if "\\u" in text:
            _check_halves(value)
    except json.JSONDecodeError as error:
        raise UnreadableCallError(f"it is not one JSON document: {error}") from None
    except RecursionError:
        raise UnreadableCallError("it is nested too deep") from None
    except ValueError:
        # Python turns no longer ones into numbers: that takes the square of their length.
        raise UnreadableCallError("it has a whole number of more than 4300 digits") from None
    if not isinstance(value, dict):
        raise UnreadableCallError("it is no JSON object")
    return value


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of a name that stands twice, one host takes the first value and another the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise UnreadableCallError(f"an object has the name {one_line(twice)[:_SHOWN]} twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableCallError(f"{name} is no JSON")


def _check_halves(value: object) -> None:
    """Refuse half of a character: whoever runs the call puts something else in its place."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise UnreadableCallError("a text in it has half of a character (a lone surrogate)") from None
