"""Locate the fields of a YAML mapping in its text, so that one can be edited without changing the rest.

Reads the texts that `yaml12` reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from yaml import AliasEvent, CollectionEndEvent, CollectionStartEvent, MappingStartEvent, ScalarEvent

from skills_core.format.yaml12 import visit_events

if TYPE_CHECKING:
    from yaml import Event

__all__ = ["Place", "Span", "read_layout", "read_lines"]


class Span(NamedTuple):
    """A part of a text, from `start` to before `end`."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return the part of `text`."""
        return text[self.start : self.end]

    def replaced(self, text: str, new: str) -> str:
        """Return `text` with `new` in place of the part."""
        return text[: self.start] + new + text[self.end :]


@dataclass(frozen=True, slots=True)
class Place:
    """The spans of a field's key and value, each None unless it is a scalar without anchor and tag.

    `plain` tells that the value is neither quoted nor a block.
    """

    key: Span | None
    value: Span | None
    plain: bool


def read_layout(yaml: str) -> dict[str, Place]:
    """Return the place of each field by its path: `name`, `metadata.jdai.skillKey`, `tools[0].name`.

    `yaml` is a text that `load_mapping` reads. Of a repeated key, the last place counts.
    """
    reader = _Reader(yaml)
    visit_events(yaml, reader.take)
    return reader.places


def read_lines(yaml: str) -> dict[str, int]:
    """Return the first line, from 1, of each field and list item, by path as in `read_layout`.

    Fields in what an alias repeats have no line.
    """
    reader = _Reader(yaml)
    visit_events(yaml, reader.take)
    return reader.lines


class _Mark(Protocol):
    """Line and column of an event, both from 0."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


@dataclass(slots=True)
class _Open:
    """An unclosed collection; in a list, `count` numbers the items and `name` is unused."""

    path: str
    mapping: bool
    name: str | None = None
    key: Span | None = None
    line: int = 0
    count: int = 0


@dataclass(slots=True)
class _Reader:
    text: str
    places: dict[str, Place] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    stack: list[_Open] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = [0]
        for line in self.text.split("\n"):
            self.rows.append(self.rows[-1] + len(line) + 1)

    def take(self, event: Event) -> None:
        if isinstance(event, CollectionEndEvent):
            self.stack.pop()
        elif isinstance(event, ScalarEvent | AliasEvent | CollectionStartEvent):
            self._node(event)

    def _node(self, event: ScalarEvent | AliasEvent | CollectionStartEvent) -> None:
        top = self.stack[-1] if self.stack else None
        scalar = event if isinstance(event, ScalarEvent) and event.anchor is None and event.tag is None else None
        span = self._span(event) if scalar else None
        if top is not None and top.mapping and top.name is None:
            top.name, top.key, top.line = str(getattr(event, "value", "")), span, _line(event)
            return
        path = self._path(top)
        self.lines[path] = top.line if top is not None and top.mapping else _line(event)
        if top is not None and top.mapping:
            self.places[path] = Place(top.key, span, plain=scalar is not None and not scalar.style)
            top.name = None
        if isinstance(event, CollectionStartEvent):
            self.stack.append(_Open(path, isinstance(event, MappingStartEvent)))

    def _path(self, top: _Open | None) -> str:
        if top is None:
            return ""
        if top.mapping:
            return f"{top.path}.{top.name}" if top.path else str(top.name)
        top.count += 1
        return f"{top.path}[{top.count - 1}]"

    def _span(self, event: Event) -> Span:
        return Span(self._position(event.start_mark), self._position(event.end_mark))

    def _position(self, mark: _Mark | None) -> int:
        return min(self.rows[mark.line] + mark.column, len(self.text)) if mark else 0


def _line(event: Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1
