"""The parts of a conversation that all model APIs have in common."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = [
    "Call",
    "Dialect",
    "Event",
    "Json",
    "Part",
    "Request",
    "Text",
    "Tool",
    "ToolKind",
    "fresh",
    "joined",
    "texts",
]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """Text that the model writes."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool; `namespace` is set for APIs that group tools.

    The arguments of a tool of the kind SCRIPT are the text of a program.
    """

    name: str
    arguments: Json | str
    namespace: str | None = None


Part = Text | Call


class ToolKind(Enum):
    """How a tool is called."""

    FUNCTION = auto()
    SEARCH = auto()
    """The client's own search for deferred tools, which has an item type of its own."""
    SCRIPT = auto()
    """The argument is a program instead of JSON."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a request offers; `deferred` tools are hidden until the client's search returns them."""

    name: str
    description: str = ""
    schema: Json = field(default_factory=dict)
    namespace: str | None = None
    kind: ToolKind = ToolKind.FUNCTION
    deferred: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the model.

    `text` has the system prompt and all messages, `results` the text of each tool result in the conversation.
    """

    tools: tuple[Tool, ...]
    text: str
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event."""

    data: Json | str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Dialect:
    """A model API: read a request, make a whole answer, and cut that answer into the events of a stream."""

    read: Callable[[Json], Request]
    answer: Callable[[Sequence[Part], str], Json]
    events: Callable[[Json], Iterator[Event]]


def texts(value: object) -> Iterator[str]:
    """Yield all strings of a JSON value except the types of content."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key != "type":
                yield from texts(each)


def joined(values: Iterable[object]) -> str:
    """Return all strings of JSON values, one a line."""
    return "\n".join(text for value in values for text in texts(value))


def fresh(prefix: str) -> str:
    """Return an id that is used once."""
    return prefix + uuid.uuid4().hex[:20]
