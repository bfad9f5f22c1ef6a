"""A tool, whatever its origin: its description for the model, a call with its record, and the secrets to redact."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.interaction import User
    from skills_core.toolboxes import ToolPurpose


IDEMPOTENCY_KEY = "IDEMPOTENCY_KEY"
"""The environment variable with the idempotency key of a call, the same when an interrupted call is repeated."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits of each call of a tool."""

    seconds: float = 120.0
    characters: int = 50_000
    """Most characters of the result that the model receives."""


class Effect(StrEnum):
    """The side effects of a call. A tool of another server that does not declare them counts as writing."""

    READS = "reads"
    WRITES = "writes"


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of a call.

    `key` is an idempotency key: unique to the call, and the same if the step is repeated after an interruption. The
    model receives at most `characters` of the returned text. `redact` removes the run's secrets: a tool that cuts a
    text redacts it first.
    """

    run_id: str
    key: str
    user: User
    characters: int
    redact: Callable[[str], str]


Perform: TypeAlias = "Callable[[JsonObject, CallContext], Awaitable[str]]"


@dataclass(frozen=True, slots=True)
class Role:
    """How entries of `allowed-tools` refer to a tool, and which arguments their patterns match.

    A host's name for any of `purposes` means this tool, and so do its `aliases`. `alias_prefixes` are the prefixes
    of those aliases that name the tool's server; empty for a tool without a server. `command` is the argument that
    holds a command as a list of words, `path` the one that holds a path within the workspace; None without such an
    argument. `recursive` marks a tool whose call reaches everything in the folder at that path. `own` marks a tool that
    belongs to the skill being run, which needs no entry for it.
    """

    purposes: frozenset[ToolPurpose] = frozenset()
    aliases: tuple[str, ...] = ()
    alias_prefixes: tuple[str, ...] = ()
    command: str | None = None
    path: str | None = None
    recursive: bool = False
    own: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool; `parameters` is the JSON Schema of its arguments, of type object.

    `perform` executes a call whose arguments fit the schema, and returns text for the model. It raises
    `ToolFailedError` with a text for the model if the call fails. `origin` says in words where the tool comes from:
    `workspace`, `skill NAME`, `server NAME`. `declared_name` is the tool's name in its skill if it is offered
    under another; the guard matches patterns against both. A tool that `waits_for_user` has only the run's deadline.
    One that is `built_in` comes with every run, without a setting that switches it on. `spelled` returns arguments with
    the right spelling of what they name in another; the guard judges these as well.
    """

    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    effect: Effect
    origin: str
    perform: Perform
    role: Role = Role()
    declared_name: str = ""
    waits_for_user: bool = False
    built_in: bool = False
    spelled: Callable[[JsonObject], JsonObject] | None = None


class CallDecision(StrEnum):
    """The result of a tool call. Calls that are `DONE`, `FAILED` or `TIMED_OUT` were started, others not.

    `NOBODY_TO_ASK` is a question that nobody answers: whether the call may be made, or one that the model has.
    """

    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    UNKNOWN_TOOL = "unknown_tool"
    NOT_PERMITTED = "not_permitted"
    INVALID_ARGUMENTS = "invalid_arguments"
    DENIED = "denied"
    DECLINED = "declined"
    NOBODY_TO_ASK = "nobody_to_ask"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call: the model's request, the decision with its reason, and the reply.

    `confirmed` says that the user was asked and agreed. `text` is the reply to the model.
    """

    number: int
    tool: str
    arguments: Mapping[str, JsonValue]
    decision: CallDecision
    text: str
    reason: str = ""
    confirmed: bool = False
    seconds: float = 0.0


MIN_SECRET = 6
"""Characters; a shorter value occurs in ordinary text too often to be redacted."""


MIN_SECRET_LINE = 12
"""Characters; a line of this length in a multi-line secret is redacted by itself."""

_MARK = "[secret "


class Secrets:
    """Named secret values."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """Redact `values`, given by name: as they are, as JSON escapes them, and line by line."""
        named = {form: name for name, value in values.items() for form in _forms(value) if len(form) >= MIN_SECRET}
        self._names = named
        # Of two values with a common prefix, the longer one matches first.
        longest_first = sorted(named, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if named else None

    def redact(self, text: str) -> str:
        """Return `text` with each secret replaced by its name."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"{_MARK}{self._names[found[0]]}]", text)

    def redact_json(self, value: JsonValue) -> JsonValue:
        """Return a JSON value with secrets redacted in all strings; keys of objects are not secret."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, list):
            return [self.redact_json(item) for item in value]
        if isinstance(value, dict):
            return {key: self.redact_json(item) for key, item in value.items()}
        return value

    def has_placeholder(self, value: JsonValue) -> bool:
        """Tell whether a string within `value` contains a placeholder of a secret.

        Writing that back would replace the secret by its name.
        """
        if isinstance(value, str):
            return any(f"{_MARK}{name}]" in value for name in set(self._names.values()))
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return any(map(self.has_placeholder, items))


def _forms(value: str) -> Iterator[str]:
    yield value
    yield value.strip()
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= MIN_SECRET_LINE)
