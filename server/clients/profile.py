"""The profile of a client: the facts that can be known about it, each with its evidence."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CHARACTERS_A_TOKEN",
    "DEFAULT_WINDOW",
    "UNKNOWN",
    "ClientProfile",
    "Commands",
    "Evidence",
    "Fact",
    "Limit",
    "NativeListing",
    "Overflow",
    "profile_called",
    "profile_of",
]

DEFAULT_WINDOW = 200_000
"""The context window in tokens that is assumed for budgets given as a share of it."""

CHARACTERS_A_TOKEN = 4
"""Characters per token, as clients convert budgets and as we estimate token counts."""

_Value = TypeVar("_Value")

# Named tuples, because every start of a server loads this module, and dataclasses take three times as long to define.


class Evidence(NamedTuple):
    """Where a fact was found, and the day on which it was true (ISO 8601)."""

    source: str
    date: str


class Limit(NamedTuple):
    """The maximum number of characters: of a text that reaches the model, or of a name."""

    characters: int
    evidence: Evidence


class Fact(NamedTuple, Generic[_Value]):
    """A known property of a client."""

    value: _Value
    evidence: Evidence


class Overflow(StrEnum):
    """What a client does with skills that it reads itself and that exceed its budget."""

    NAMES = "names"
    """The first skills keep their descriptions, the others are listed only by name."""

    SHORTENED = "shortened"
    """All descriptions are cut to an equal length, then dropped; only then are skills omitted."""

    OMITTED = "omitted"
    """All skills after the last one that fits are omitted."""


class NativeListing(NamedTuple):
    """How a client lists the skills that it finds in folders itself.

    The budget is a number of `characters`, or `percent` of the model's context window; with neither, all skills are
    listed. `entry` is the maximum length of a description, `frame` the length of an entry besides name and description.
    """

    evidence: Evidence
    characters: int | None = None
    percent: int | None = None
    entry: int | None = None
    frame: int = 4
    overflow: Overflow = Overflow.OMITTED

    def budget(self, window: int = DEFAULT_WINDOW) -> int | None:
        """Return the maximum length of the list for a context of `window` tokens; None if no limit is known."""
        if self.percent is not None:
            return window * CHARACTERS_A_TOKEN * self.percent // 100
        return self.characters


class Commands(NamedTuple):
    """The built-in slash commands of a client: names without the slash, separated by spaces."""

    listed: str
    evidence: Evidence

    @property
    def names(self) -> frozenset[str]:
        """The names as a set."""
        return frozenset(self.listed.split())


class ClientProfile(NamedTuple):
    """What is known of one client; None stands for unknown.

    - `names`: prefixes of the name that the client sends, in lower case; `named` is their evidence.
    - `description`, `instructions`: characters of a tool's description and a server's instructions that the model sees.
    - `schema`: bytes of a tool's input schema above which the client drops the tool.
    - `result`: characters of a tool's result above which it is cut or moved to a file; `_meta` can raise that limit up
      to `raised_result`.
    - `max_tools`, `tool_name`: the maximum number of tools, and characters of a tool's name.
    - `lazy_tools`: tools are loaded only when the model searches for them; `always_load`: `anthropic/alwaysLoad`
      prevents that.
    - `model_reads`: the model can read resources by itself.
    - `prompts`: prompts are shown as commands.
    - `list_changed`: the client reacts to `tools/list_changed`.
    - `compaction`: the client drops or summarizes old tool results by itself.
    - `native`, `commands`: how the client lists skills in folders, and its built-in slash commands.
    - `toolbox`: the key of the preset with the client's own tools.
    """

    key: str
    title: str
    names: tuple[str, ...] = ()
    named: Evidence | None = None
    description: Limit | None = None
    instructions: Limit | None = None
    schema: Fact[int] | None = None
    result: Limit | None = None
    raised_result: Limit | None = None
    max_tools: Fact[int] | None = None
    tool_name: Limit | None = None
    lazy_tools: Fact[bool] | None = None
    always_load: Fact[bool] | None = None
    model_reads: Fact[bool] | None = None
    prompts: Fact[bool] | None = None
    list_changed: Fact[bool] | None = None
    compaction: Fact[bool] | None = None
    native: NativeListing | None = None
    commands: Commands | None = None
    toolbox: str | None = None

    @property
    def description_budget(self) -> int | None:
        """The maximum characters of a tool's description; None if no cut is known."""
        return self.description.characters if self.description else None

    @property
    def reads_resources(self) -> bool:
        """Whether the model is known to read resources by itself."""
        return self.model_reads is not None and self.model_reads.value

    @property
    def compacts(self) -> bool:
        """Whether the client is known to drop or summarize old tool results by itself."""
        return self.compaction is not None and self.compaction.value


UNKNOWN = ClientProfile("unknown", "an unknown client")


def profile_of(name: str | None, clients: Iterable[ClientProfile]) -> ClientProfile:
    """Return the profile of the client that calls itself `name`: the one with the longest matching prefix."""
    folded = (name or "").strip().lower()
    fitting = [(len(known), client) for client in clients for known in client.names if folded.startswith(known)]
    return max(fitting, key=lambda pair: pair[0], default=(0, UNKNOWN))[1]


def profile_called(name: str | None, clients: Iterable[ClientProfile]) -> ClientProfile:
    """Return the profile of the client with the key `name`; else of the client that calls itself so."""
    known = tuple(clients)
    key = (name or "").strip().lower()
    return next((client for client in known if client.key == key), profile_of(name, known))
