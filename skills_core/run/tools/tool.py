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
    call returns, the model is given `characters`, and `redact` takes out what is secret in the run: a tool that cuts a
    text does so first.
    """

    run_id: str
    key: str
    user: User
    characters: int
    redact: Callable[[str], str]


Perform: TypeAlias = "Callable[[JsonObject, CallContext], Awaitable[str]]"


@dataclass(frozen=True, slots=True)
class Role:
    """What else a tool is called in the `allowed-tools` of skills, and what their patterns are matched against.

    A host's name for any of `capabilities` means this tool, and so do its `aliases`. `alias_prefixes` are the prefixes
    of those aliases that name the tool's server; empty for a tool without a server. `command` is the argument that
    holds a command as a list of words, `path` the one that holds a path within the workspace; None without such an
    argument. `recursive` marks a tool whose call reaches everything in the folder at that path. `own` marks a tool that
    belongs to the skill being run, which needs no entry for it.
    """

    capabilities: frozenset[Capability] = frozenset()
    aliases: tuple[str, ...] = ()
    alias_prefixes: tuple[str, ...] = ()
    command: str | None = None
    path: str | None = None
    recursive: bool = False
    own: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool; `parameters` is the JSON Schema of its arguments, an object.

    `perform` carries a call out whose arguments fit the schema, and returns text for the model. It raises
    `ToolFailedError` with a text for the model where the call came to nothing. `origin` says in words where the tool
    comes from: `workspace`, `skill NAME`, `server NAME`. One that `waits_for_user` has only the run's
    deadline. One that is `built_in` comes with every run, without a setting that switches it on.
    """

    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    effect: Effect
    origin: str
    perform: Perform
    role: Role = Role()
    waits_for_user: bool = False
    built_in: bool = False
