"""Find names of skills in what a model is sent."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conformance.clients.dialects.messages import Request

__all__ = ["mentions", "names_in"]

WORD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def names_in(request: Request, names: Iterable[str], *, schemas: bool = True) -> set[str]:
    """Return which names the model sees in messages and tools; `schemas` includes input schemas."""
    tools = [tool for tool in request.tools if not tool.deferred]
    parts = [request.text, *(f"{tool.name} {tool.description}" for tool in tools)]
    if schemas:
        parts += [json.dumps(tool.schema) for tool in tools]
    return mentions("\n".join(parts), names)


def mentions(text: str, names: Iterable[str]) -> set[str]:
    """Return which names a text has as whole words; line ends may be escaped, as in JSON."""
    return set(WORD.findall(text.replace("\\n", "\n"))) & set(names)
