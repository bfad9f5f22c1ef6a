"""Find what a model is sent of the skills: their names, their descriptions, and how long all of it is."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from conformance.clients.dialects.messages import Request

__all__ = ["described_in", "length", "mentions", "names_in", "sent"]

WORD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

TELLING = re.compile(r"[a-z]{4,}")
"""The words of a description that count; shorter ones are in every text."""

FEWEST = 3
"""A skill is described if so many words of its description stand behind its name, in their order."""

FARTHEST = 400
"""Characters behind a name, up to the next name, in which its description is looked for."""


def names_in(request: Request, names: Iterable[str], *, schemas: bool = True) -> set[str]:
    """Return which names the model sees in messages and tools; `schemas` includes input schemas."""
    return mentions(sent(request, schemas=schemas), names)


def described_in(request: Request, skills: Mapping[str, str]) -> set[str]:
    """Return which skills the model sees with a description, whole or shortened; `skills` has them by name."""
    text = _unescaped(sent(request))
    places = [match for match in WORD.finditer(text) if match[0] in skills]
    ends = [*(each.start() for each in places[1:]), len(text)]
    behind = (
        (place[0], text[place.end() : min(end, place.end() + FARTHEST)])
        for place, end in zip(places, ends, strict=False)
    )
    return {name for name, said in behind if _in_order(_telling(said), _telling(skills[name])) >= FEWEST}


def length(request: Request) -> int:
    """Return how many characters the model is sent: messages, and the tools that are not deferred."""
    return len(sent(request))


def mentions(text: str, names: Iterable[str]) -> set[str]:
    """Return which names a text has as whole words; line ends may be escaped, as in JSON."""
    return set(WORD.findall(_unescaped(text))) & set(names)


def sent(request: Request, *, schemas: bool = True) -> str:
    """Return everything of a request that the model reads."""
    tools = [tool for tool in request.tools if not tool.deferred]
    parts = [request.text, *(f"{tool.name} {tool.description}" for tool in tools)]
    if schemas:
        parts += [json.dumps(tool.schema, ensure_ascii=False, separators=(",", ":")) for tool in tools]
    return "\n".join(parts)


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")


def _telling(text: str) -> Sequence[str]:
    return TELLING.findall(text.lower())


def _in_order(said: Sequence[str], description: Sequence[str]) -> int:
    """Return how many words of a description are said in its order; the first of equal words counts."""
    found, start = 0, 0
    for word in said:
        if word in description[start:]:
            start = description.index(word, start) + 1
            found += 1
    return found
