"""The names of hosts' tools: a closed set of purposes, and each host's names for them, with sources and dates.

The names are those that a model calls, not those in a user interface. If a host has several names for a purpose,
because its versions or models differ, the newest comes first. `presets.json` has the names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class ToolPurpose(StrEnum):
    """What a host's tool can do; the value is the wording in rendered texts."""

    READ_FILE = "read a file"
    WRITE_FILE = "write a file"
    EDIT_FILE = "edit a file"
    RUN_COMMAND = "run a command"
    LIST_FOLDER = "list a folder"
    FIND_FILES = "find files"
    SEARCH_TEXT = "search in files"
    FETCH_PAGE = "fetch a page"
    SEARCH_WEB = "search the web"
    ASK_USER = "ask the user"
    KEEP_TASKS = "keep a task list"
    DELEGATE = "delegate to a sub-agent"
    VIEW_IMAGE = "view an image"
    LOAD_SKILL = "load a skill"
    READ_RESOURCE = "read an MCP resource"
    PLAN = "present a plan"


@dataclass(frozen=True, slots=True)
class Toolbox:
    """A host's names for its tools, by purpose; the first name is the one to call.

    `former` are names of older versions, which skills still mention but no model can call. `source` is where the names
    were found and `date` the day of the look-up (ISO 8601). `names_servers` is true if the host names a tool of an MCP
    server `mcp__server__tool`, as many skills do.
    """

    key: str
    title: str
    source: str
    date: str
    tools: Mapping[ToolPurpose, tuple[str, ...]] = field(hash=False)
    former: Mapping[ToolPurpose, tuple[str, ...]] = field(hash=False, default_factory=dict)
    names_servers: bool = False

    def first(self, purpose: ToolPurpose) -> str | None:
        """Return the tool to call for `purpose`; None if the host has none."""
        return next(iter(self.tools.get(purpose, ())), None)

    def has(self, name: str) -> bool:
        """Tell whether `name` is a tool of this host, ignoring case."""
        if name.startswith("mcp__"):
            return self.names_servers
        folded = name.casefold()
        return any(folded == own.casefold() for names in self.tools.values() for own in names)

    def names(self) -> Iterator[tuple[ToolPurpose, str]]:
        """Yield every name, including former ones, with its purpose."""
        for tools in (self.tools, self.former):
            for purpose, names in tools.items():
                for name in names:
                    yield purpose, name


def _toolbox(values: Mapping[str, Any]) -> Toolbox:
    named = {field: _by_purpose(values.get(field, {})) for field in ("tools", "former")}
    return Toolbox(**{**values, **named})


def _by_purpose(names: Mapping[str, list[str]]) -> dict[ToolPurpose, tuple[str, ...]]:
    return {ToolPurpose[purpose.upper()]: tuple(listed) for purpose, listed in names.items()}


_DATA = json.loads(Path(__file__).with_name("presets.json").read_bytes())

PRESETS: tuple[Toolbox, ...] = tuple(map(_toolbox, _DATA["presets"]))
"""The toolboxes of known hosts."""

OTHER_NAMES = _toolbox(_DATA["other"])
"""Names that skills mention and no host of the presets has."""

_BY_KEY = {toolbox.key: toolbox for toolbox in PRESETS}


def toolbox_named(key: str | None) -> Toolbox | None:
    """Return the preset with this key; None if there is none."""
    return _BY_KEY.get(key or "")
