"""Follow the line of a result that says how to read the rest of a skill."""

from __future__ import annotations

import re

from conformance.clients.dialects.messages import Call, Json

__all__ = ["TOOL", "read_on"]

TOOL = "read_skill_file"

MENTION = re.compile(rf"{TOOL}\b(?P<rest>[^\n]{{0,400}})")
TEXT = re.compile(r"""\b(skill|path)["'`]?\s*[:=]?\s*["'`]([^"'`]+)["'`]""")
NUMBER = re.compile(r"""\b(offset|limit)["'`]?\s*[:=]?\s*(\d+)""")


def read_on(result: str, skill: str) -> Call | None:
    """Return the call that the last mention of `read_skill_file` with an offset asks for, or None without one.

    A client may show a result as JSON, so quotes and line ends may be escaped.
    """
    plain = result.replace("\\n", "\n").replace('\\"', '"')
    for mention in reversed(list(MENTION.finditer(plain))):
        numbers: Json = {name: int(value) for name, value in NUMBER.findall(mention["rest"])}
        if "offset" in numbers:
            return Call(TOOL, {"skill": skill, "path": "SKILL.md", **dict(TEXT.findall(mention["rest"])), **numbers})
    return None
