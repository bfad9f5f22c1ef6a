"""What can be known of a client."""

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
    "profile_of",
]

DEFAULT_WINDOW = 200_000
"""Tokens of a model's context window, where a budget is a share of one and nobody says how large it is."""

CHARACTERS_A_TOKEN = 4
"""How clients turn a budget of tokens into characters, and how we estimate the reverse."""

_Value = TypeVar("_Value")

# Every start of a server loads this module: a named tuple is made in a third of the time that a dataclass takes.


class Evidence(NamedTuple):
    """Where a fact was found, and on which day it was true (ISO 8601)."""

    source: str
    date: str


class Limit(NamedTuple):
    """How many characters of a text reach the model, or a name may have."""

    characters: int
    evidence: Evidence


class Fact(NamedTuple, Generic[_Value]):
    """Something that is known of a client."""

    value: _Value
    evidence: Evidence


class Overflow(StrEnum):
    """What a client does with skills that it reads itself and that its budget has no room for."""

    NAMES = "names"
    """The first keep their descriptions, the others are listed by name alone."""

    SHORTENED = "shortened"
    """All descriptions are cut to an equal share, then dropped, and only then skills are left out."""

    OMITTED = "omitted"
    """What comes after the last that fits is left out."""


class NativeListing(NamedTuple):
    """How a client lists the skills that it finds in folders by itself.

    The budget is a number of `characters`, or that many per cent of the model's context window; with neither, all are
    listed. `entry` is the longest description. `frame` is what an entry costs beside name and description.
    """

    evidence: Evidence
    characters: int | None = None
    percent: int | None = None
    entry: int | None = None
    frame: int = 4
    overflow: Overflow = Overflow.OMITTED

    def budget(self, window: int = DEFAULT_WINDOW) -> int | None:
        """Return the most characters of the list, for a context window of so many tokens; None where none is known."""
        if self.percent is not None:
            return window * CHARACTERS_A_TOKEN * self.percent // 100
        return self.characters


class Commands(NamedTuple):
    """The slash commands that come with a client: their names without the slash, separated by spaces."""

    listed: str
    evidence: Evidence

    @property
    def names(self) -> frozenset[str]:
        """The names, each by itself."""
        return frozenset(self.listed.split())


class ClientProfile(NamedTuple):
    """One client, or one that nothing is known of; None stands for what is not known.

    `names` are what the name begins with that the client sends, in lower case. In the order of the fields: how much of
    a tool's description and of a server's instructions the model sees; how many bytes a tool's input schema may have
    before the tool is dropped; how long a tool's result may be before it is cut or put into a file, and to how much
    `_meta` may raise that; the most tools; how long a tool's name may be; whether tools are loaded only when the model
    searches for them, and whether `anthropic/alwaysLoad` prevents it; whether the model can read resources by itself,
    prompts are shown as commands, and `tools/list_changed` is acted on; whether old tool results are dropped or
    summarised without being asked. `toolbox` names the preset of the client's own tools.
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
        """Most characters of a tool's description, None where no cut is known."""
        return self.description.characters if self.description else None

    @property
    def reads_resources(self) -> bool:
        """Whether it is known that the model can read resources by itself."""
        return self.model_reads is not None and self.model_reads.value

    @property
    def compacts(self) -> bool:
        """Whether it is known that old tool results are dropped or summarised without being asked."""
        return self.compaction is not None and self.compaction.value


UNKNOWN = ClientProfile("unknown", "an unknown client")


def profile_of(name: str | None, clients: Iterable[ClientProfile]) -> ClientProfile:
    """Return what is known of the client that calls itself `name`: the longest beginning of the name decides."""
    folded = (name or "").strip().lower()
    fitting = [(len(known), client) for client in clients for known in client.names if folded.startswith(known)]
    return max(fitting, key=lambda pair: pair[0], default=(0, UNKNOWN))[1]
