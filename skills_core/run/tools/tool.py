"""A tool as a run has it, wherever it comes from: what a model is told of it, and what a call does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from skills_core.format.yaml12 import JsonValue
    from skills_core.run.ports import JsonObject, User
    from skills_core.toolboxes import Capability

__all__ = ["CallContext", "Effect", "Perform", "Role", "Tool"]


class Effect(StrEnum):
    """What a call may do to the world. A tool of others that does not say is one that writes."""

    READS = "reads"
    WRITES = "writes"


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a call knows of the run that it belongs to.

    `key` is the same when the step is done again after an interruption, and no other call has it. Of the text that the
    call returns, the model is given `characters`, and `hide` takes out what is secret in the run: a tool that cuts a
    text does so first.
    """

    run_id: str
    key: str
    user: User
    characters: int
    hide: Callable[[str], str]


Perform: TypeAlias = "Callable[[JsonObject, CallContext], Awaitable[str]]"


@dataclass(frozen=True, slots=True)
class Role:
    """What else a tool is called in the `allowed-tools` of skills, and what their patterns are matched against.

    The names of hosts for any of `capabilities` mean the tool, and so do `aliases`. `beginnings` are what those aliases
    begin with that name the server whose tool it is; empty for a tool of none. `command` is the argument that holds a
    command as a list of words, `path` the one that holds a path within the workspace; None where a tool has no such
    argument. `below` tells that a call reaches all that is in the folder at that path. `own` tells that the
    tool comes with the skill that is run, which needs no permit for it.
    """

    capabilities: frozenset[Capability] = frozenset()
    aliases: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()
    command: str | None = None
    path: str | None = None
    below: bool = False
    own: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool; `parameters` is the JSON Schema of its arguments, an object.

    `perform` carries a call out whose arguments fit the schema, and returns text for the model. It raises
    `ToolFailedError` with a text for the model where the call came to nothing. `origin` says in words where the tool
    comes from: `workspace`, `skill NAME`, `server NAME`. One that `waits` for a person has no deadline but the run's.
    One that is `unasked` comes with every run, without anybody having switched it on.
    """

    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    effect: Effect
    origin: str
    perform: Perform
    role: Role = Role()
    waits: bool = False
    unasked: bool = False
