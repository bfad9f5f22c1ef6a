"""The known facts about clients, read from `known_clients.json`.

The facts of a client are grouped by their source and date. A file's name as a source refers to the client's public
source code; "measured with" a version to runs of that version against a scripted model, as `conformance/clients`
repeats them, and "read in" a version to the code that it ships. A date is that of the source, or the day on which it
was read or measured. Facts without a source are left out. `remarks` are for readers of the file alone.

The file is read at each start of a server. It is JSON, as that takes 0.1 ms to parse, and the same as TOML 5 ms.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from server.clients.profile import (
    ClientProfile,
    Commands,
    Earlier,
    Evidence,
    Fact,
    Limit,
    NativeListing,
    Overflow,
    Raises,
    StructureUse,
    Unit,
    UserOption,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["DATA", "KNOWN_CLIENTS", "read_clients"]

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
    "whole": lambda value, evidence: Fact(tuple(value), evidence),
    "structure": lambda value, evidence: Fact(StructureUse(value), evidence),
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
