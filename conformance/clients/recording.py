"""The recording of a run: every request to the model with what it was answered, as lines of JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.clients.dialects import dialect_of
from conformance.clients.dialects.messages import Json, Request, Text
from conformance.clients.host_tools import reads_link

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.clients.scripted_model import Reply

__all__ = ["Exchange", "Recorder", "Recording", "Step"]


class Recorder:
    """Writes a recording."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, path: str, body: Json, reply: Reply) -> None:
        """Append a request and its answer."""
        step = {"name": reply.step.name, "arguments": reply.step.arguments} if reply.step else None
        answered = [
            {"text": part.text} if isinstance(part, Text) else {"name": part.name, "arguments": part.arguments}
            for part in reply.parts
        ]
        line = json.dumps({"path": path, "body": body, "step": step, "answered": answered})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a tool of the server, or of the host's own tool that reads a link of a result."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request; `step` is the call of the script that answered it."""

    request: Request
    step: Step | None


@dataclass(frozen=True, slots=True)
class Recording:
    """The conversation of a run."""

    exchanges: tuple[Exchange, ...]

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read a recording; without a file it is empty.

        Requests without tools, for example for a title, are left out, unless the client offers none at all.
        """
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found = tuple(_exchange(json.loads(line)) for line in lines)
        return cls(tuple(exchange for exchange in found if exchange.request.tools) or found)

    @property
    def used_the_server(self) -> bool:
        """Return whether the model could call a tool of the server."""
        return any(exchange.step for exchange in self.exchanges)

    def steps(self, tool: str, /, **arguments: str) -> list[int]:
        """Return the places of the exchanges whose step is a call of this tool with at least these arguments."""
        return [
            place
            for place, exchange in enumerate(self.exchanges)
            if exchange.step and exchange.step.name == tool and arguments.items() <= exchange.step.arguments.items()
        ]

    def results_after(self, place: int) -> str:
        """Return what the exchange at `place` brought: the results that the next request adds, and what they link."""
        before, after = self.exchanges[place].request, self.request_after(place)
        while after and self._reads_link(place + 1):
            place += 1
            after = self.request_after(place)
        return "\n".join(after.results[len(before.results) :]) if after else ""

    def calls_of_the_server(self) -> int:
        """Return how many calls of the server's tools the model made."""
        return sum(each.step is not None and not reads_link(each.step.name) for each in self.exchanges)

    def _reads_link(self, place: int) -> bool:
        step = self.exchanges[place].step
        return step is not None and reads_link(step.name)

    def request_after(self, place: int) -> Request | None:
        """Return the request that follows the exchange at `place`, or None if the client sent none."""
        return self.exchanges[place + 1].request if place + 1 < len(self.exchanges) else None


def _exchange(line: Json) -> Exchange:
    dialect = dialect_of(line["path"])
    if dialect is None:
        raise ValueError(f"{line['path']} is no path of a model API")
    step = line["step"]
    return Exchange(dialect.read(line["body"]), Step(step["name"], step["arguments"]) if step else None)
