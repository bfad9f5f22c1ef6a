"""Stubs: the SKILL.md that stands in an agent's own folder for a skill of an MCP server.

A stub has the name and the description of the skill, and a body that says how to load it. Its frontmatter has a mark
with the server's name and a digest of the stub itself: so we know our stubs again without a list of them, wherever a
process was killed, and see whether somebody has edited one. A stub is never served as a skill.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from skills_core.diagnostics import without_lone_surrogates
from skills_core.format.frontmatter import DESCRIPTION_LIMIT, name_from

if TYPE_CHECKING:
    from skills_core.format.frontmatter import Frontmatter

MARK: Final = "skillserve-bridge"
"""The key in `metadata` of a stub."""

_MARK: Final = MARK.encode()

MAX_STUB: Final = 16_384
"""A larger file is not a stub."""

_MARK_LINE: Final = re.compile(rf'^  {MARK}: "(?P<server>[^\s"]+) (?P<digest>[0-9a-f]{{16}})"\n', re.MULTILINE)

# The names of devices, which no folder can have on Windows.
_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)")

_BODY: Final = """\
Call the tool `activate_skill` of the MCP server `{server}` ({called}) with the name `{key}`, and follow what it \
returns: the instructions of this skill. They are not in this file.

If you do not have this tool, even after a search for tools, do not guess the instructions. Tell the user that the MCP \
server `{server}` is not connected, and that `skillserve doctor` says why.
"""


class Stub(NamedTuple):
    """What a stub says of itself: the server that it belongs to, and whether it is as it was written."""

    server: str
    is_intact: bool


def stub_name(key: str) -> str:
    """Return the name of the stub for the skill `key`: valid in every agent and on every system; empty if none is."""
    name = name_from(key)
    return f"skill-{name}" if _DEVICES.fullmatch(name) else name


def render_stub(name: str, key: str, description: str, *, server: str, called: str, user_invocable: bool = True) -> str:
    """Return the text of a stub; `called` is what models call the tool that loads the skill `key`."""
    visible = "" if user_invocable else "user-invocable: false\n"
    head = f"---\nname: {name}\ndescription: {_quoted(description)}\n{visible}metadata:\n"
    tail = "---\n\n" + _BODY.format(server=server, called=called, key=_plain(key).replace("`", "'"))
    return f'{head}  {MARK}: "{server} {_digest(server, head, tail)}"\n{tail}'


def read_stub(text: str) -> Stub | None:
    """Return what a stub says of itself, None if the text is not one."""
    found = _MARK_LINE.search(text)
    if found is None:
        return None
    digest = _digest(found["server"], text[: found.start()], text[found.end() :])
    return Stub(found["server"], digest == found["digest"])


def is_stub(front: Frontmatter) -> bool:
    """Tell whether a frontmatter is that of a stub."""
    # All frontmatter is asked, so what is written is looked at before it is read.
    return _MARK in front.written and MARK in front.metadata


def _quoted(description: str) -> str:
    """Return a description as a YAML scalar; agents refuse one that is longer than the format allows."""
    text = _plain(description)
    if len(text) > DESCRIPTION_LIMIT:
        text = text[: DESCRIPTION_LIMIT - 1].rsplit(" ", 1)[0] + "…"
    # A JSON string is a YAML scalar.
    return json.dumps(text, ensure_ascii=False)


def _plain(text: str) -> str:
    """Return a text on one line without characters that readers of YAML treat in different ways."""
    words = without_lone_surrogates(text).split()
    return "".join(char for char in " ".join(words) if char.isprintable())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
