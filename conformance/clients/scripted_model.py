"""A model that plays a script: it calls the tools that the script names, in the manner of the host that it runs in."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from conformance.clients.dialects.messages import Call, Part, Request, Text
from conformance.clients.host_tools import call_for, end_of, link_in, search_for

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AnsweringModel", "Play", "Reply", "Script", "ScriptedModel"]

Play = Generator[Call, Request, None]
"""Yields the calls of the server's tools; receives the request that follows each."""

Script = Callable[[Request], Play]
"""Starts a play with the first request."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; `step` is the call of the script that it carries out."""

    parts: Sequence[Part]
    step: Call | None = None


class AnsweringModel(Protocol):
    """A model that answers requests."""

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        ...


class ScriptedModel:
    """Answers the requests of one conversation.

    Requests without tools, for example for a title, are answered and do not advance the script. Where the host defers
    the tool of a step, the model first calls the host's search. A link that a result says to read is read at once.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._play: Play | None = None
        self._step: Call | None = None
        self._searched: set[str] = set()
        self._results = 0

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        if not request.tools:
            return Reply([Text("ok")])
        newest = request.results[-1] if len(request.results) > self._results else ""
        self._results = len(request.results)
        if link := link_in(newest, request.tools):
            return Reply([link], link)
        self._step = self._step or self._next(request)
        if self._step is None:
            return Reply([end_of(request.tools) or Text("done")])
        step = self._step
        search = search_for(step, request.tools)
        if search and step.name not in self._searched:
            self._searched.add(step.name)
            return Reply([search])
        self._step = None
        call = call_for(step, request.tools)
        return Reply([call], step) if call else Reply([Text(f"there is no tool {step.name}")])

    def _next(self, request: Request) -> Call | None:
        try:
            if self._play is None:
                self._play = self._script(request)
                return next(self._play)
            return self._play.send(request)
        except StopIteration:
            return None
