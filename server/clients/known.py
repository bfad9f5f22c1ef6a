"""The known clients: the facts in `known_clients.json`, and which of them sent a request.

The facts of a client are grouped by their source and date. A file's name as a source refers to the client's public
source code; "measured with" a version to runs of that version against a scripted model, as `conformance/clients`
repeats them, and "read in" a version to the code that it ships. A date is that of the source, or the day on which it
was read or measured. Facts without a source are left out. `remarks` are for readers of the file alone.

The file is read at each start of a server. It is JSON, as that takes 0.1 ms to parse, and the same as TOML 5 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from server.clients.profile import (
    UNKNOWN,
    ClientProfile,
    Commands,
    Earlier,
    Evidence,
    Fact,
    Limit,
    NativeListing,
    Overflow,
    PromptWords,
    Raises,
    StructureUse,
    Unit,
    UserOption,
)

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext


DATA = Path(__file__).with_name("known_clients.json")

_Group = dict[str, Any]


class _Version(msgspec.Struct, forbid_unknown_fields=True):
    before: str
    facts: list[_Group]


class _Client(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    title: str
    names: tuple[str, ...]
    facts: list[_Group]
    exact: bool = False
    declares: tuple[str, ...] | None = None
    toolbox: str | None = None
    earlier: tuple[_Version, ...] = ()
    remarks: dict[str, str] = {}


class _Clients(msgspec.Struct, forbid_unknown_fields=True):
    clients: list[_Client]


def read_clients(data: bytes) -> tuple[ClientProfile, ...]:
    """Return the profiles in a file, in its order.

    Raises:
        msgspec.ValidationError: the file does not have the form of the data.
        TypeError: a group has a fact that profiles do not have.
    """
    return tuple(map(_read_profile, msgspec.json.decode(data, type=_Clients).clients))


def _read_profile(client: _Client) -> ClientProfile:
    earlier = tuple(Earlier(version.before, _facts(version.facts)) for version in client.earlier)
    return ClientProfile(
        client.key,
        client.title,
        client.names,
        exact=client.exact,
        declares=client.declares,
        earlier=earlier,
        toolbox=client.toolbox,
        **_facts(client.facts),
    )


def _facts(groups: Iterable[_Group]) -> dict[str, Any]:
    """Return the facts of groups as fields of a profile."""
    found: dict[str, Any] = {}
    for group in groups:
        evidence = Evidence(group.pop("source"), group.pop("date"))
        for field, value in group.items():
            fact = _READERS.get(field, Fact)(value, evidence)
            # A client may have several of these, from different sources.
            found[field] = (*found.get(field, ()), *fact) if field in _LISTS else fact
    return found


def _limit(value: int | dict[str, Any], evidence: Evidence) -> Limit:
    if isinstance(value, int):
        return Limit(value, evidence)
    return Limit(value["characters"], evidence, Unit(value.get("unit", Unit.CHARACTERS)), value.get("lines"))


def _limits(values: dict[str, Any], evidence: Evidence) -> tuple[tuple[str, Limit], ...]:
    return tuple((model, _limit(value, evidence)) for model, value in values.items())


def _native(value: dict[str, Any], evidence: Evidence) -> NativeListing:
    return NativeListing(evidence, **{**value, "overflow": Overflow(value.get("overflow", Overflow.OMITTED))})


def _options(values: list[dict[str, str]], evidence: Evidence) -> tuple[UserOption, ...]:
    return tuple(
        UserOption(each["option"], Raises(each["raises"]), evidence, each.get("remark", "")) for each in values
    )


_LISTS = frozenset({"model_results", "options", "notes"})

_READERS: dict[str, Callable[[Any, Evidence], Any]] = {
    "named": lambda _, evidence: evidence,
    **dict.fromkeys(("whole", "tools_of"), lambda value, evidence: Fact(tuple(value), evidence)),
    "structure": lambda value, evidence: Fact(StructureUse(value), evidence),
    "prompt_words": lambda value, evidence: Fact(PromptWords(value), evidence),
    "model_results": _limits,
    "native": _native,
    "commands": Commands,
    "options": _options,
    "notes": lambda values, evidence: [Fact(value, evidence) for value in values],
    **dict.fromkeys(
        (
            "description",
            "instructions",
            "tool_name",
            "deferred",
            "loaded",
            "search_answer",
            "result",
            "raised_result",
        ),
        _limit,
    ),
}
# How a fact is read; all others are a `Fact` of a value.

KNOWN_CLIENTS = read_clients(DATA.read_bytes())


ADDED_ARGUMENTS: Final = {
    "wait_for_previous": Evidence("Gemini CLI: github.com/MemPalace/mempalace/pull/322", "2026-04-09"),
    "toolCallId": Evidence("n8n: github.com/n8n-io/n8n/issues/21500", "2025-11-03"),
}
"""The arguments that clients add, with the source of each observation.

The schemas of our tools forbid unknown arguments, so that a model learns of its mistakes. These are not its mistakes,
and a call is valid without them.
"""

MAX_NAME = 200
"""Characters of a client's name that are compared."""

_TELLING: Final = ("elicitation", "roots", "sampling")
# The capabilities by which clients are told apart; others are new, or say nothing of the client.


def client_of(ctx: ServerRequestContext[Any, Any]) -> ClientProfile:
    """Return the profile of the client that sent the request."""
    sent = sender_of(ctx)
    return UNKNOWN if sent is None else client_called(*sent)


class Sender(NamedTuple):
    """What the sender of a request says of itself; `declares` are the names of its capabilities, sorted."""

    name: str
    version: str
    declares: tuple[str, ...] = ()


def sender_of(ctx: ServerRequestContext[Any, Any]) -> Sender | None:
    """Return what the sender of a request says of itself, None if it gives no name.

    In the handshake era a client names itself when it connects, in the modern era it may do so in each request.
    """
    sent = ctx.session.client_params
    if sent is not None:
        declared = {name: getattr(sent.capabilities, name) for name in _TELLING}
        return Sender(sent.client_info.name, sent.client_info.version, declared_in(declared))
    # While `initialize` is handled, the session does not know its client yet.
    params = (ctx.params or {}) if ctx.method == "initialize" else {}
    info = params.get("clientInfo")
    if not isinstance(info, dict):
        return None
    return Sender(str(info.get("name", "")), str(info.get("version", "")), declared_in(params.get("capabilities")))


def declared_in(capabilities: object) -> tuple[str, ...]:
    """Return the names of the capabilities that a client declares, sorted."""
    given: dict[str, Any] = capabilities if isinstance(capabilities, dict) else {}
    return tuple(name for name in _TELLING if given.get(name) is not None)


def client_called(name: str, version: str | None = None, declares: tuple[str, ...] = ()) -> ClientProfile:
    """Return the profile of the client that calls itself `name`: the one with the longest matching name.

    `version` is the version that the client sends; None stands for the latest. `declares` are the names of its
    capabilities, sorted; they tell some clients of one name apart.
    """
    return _profile_of(name[:MAX_NAME], version and version[:MAX_NAME], declares)


@lru_cache(256)
def _profile_of(name: str, version: str | None, declares: tuple[str, ...]) -> ClientProfile:
    folded = name.strip().lower()
    fitting = [
        ((len(known), each.declares is not None), each)
        for each in KNOWN_CLIENTS
        for known in each.names
        if _fits(folded, known, each) and each.declares in {None, declares}
    ]
    return max(fitting, key=lambda pair: pair[0], default=(0, UNKNOWN))[1].of_version(version)


def _fits(name: str, known: str, client: ClientProfile) -> bool:
    return name == known if client.exact else name.startswith(known)


def find_client(name: str, version: str | None = None) -> ClientProfile:
    """Return the profile of the client with the key `name`, else of the client that calls itself so."""
    key = name.strip().lower()
    found = next((client for client in KNOWN_CLIENTS if client.key == key), None)
    return client_called(name, version) if found is None else found.of_version(version)


def without_additions(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call without those that clients add, unless the tool's schema defines them."""
    own = schema.get("properties")
    named = own if isinstance(own, dict) else {}
    return {name: value for name, value in arguments.items() if name not in ADDED_ARGUMENTS or name in named}
