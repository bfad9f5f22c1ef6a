"""The conditions under which a skill is served: its gates, and the other skills that it requires.

All conditions of a gate are combined with AND; the first one that fails gives the reason: a condition that cannot be
read, then os, bins, anyBins, env, config. The environment is a value, so that a test or a user can evaluate a gate for
another machine.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skills_core.diagnostics import Reason, shortened

if TYPE_CHECKING:
    from skills_core.diagnostics import Diagnostic
    from skills_core.format.gate import Gate
    from skills_core.format.yaml12 import JsonValue


_ABSENT = object()

_SHOWN = 200
# Characters of a name or a configured value that a detail shows.

_MAX_NAMES = 5
# Names that a detail shows.


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """The entry for one skill in the user's `skills.json`.

    `enabled` is None if the entry does not set it. `variables` and the credential (of which only the presence matters)
    replace environment variables that are not set. `config` takes precedence over the general configuration.
    """

    enabled: bool | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    has_credential: bool = False
    config: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)


_NO_ENTRY = SkillEntry()


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine and user settings that gates are evaluated against.

    `os` is `windows`, `linux` or `macos`. `has_bin` tells whether an executable is on the search path. `config` has
    nested or dotted keys. `entries` maps the keys of skills, in lower case, to their entries in `skills.json`.
    `enabled` (if not empty) and `disabled` select skills by name, `tag:…` or `source:…` (a scope or a path). `bundled`
    lists the keys, in lower case, of the bundled skills to serve; None serves all. `trusts` tells whether the skills of
    a project's folder may be served. `problems` reports which of this could not be read; `unread` tells that a later
    attempt may succeed, and that the previous environment applies until then.
    """

    os: str
    has_bin: Callable[[str], bool]
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    config: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)
    entries: Mapping[str, SkillEntry] = field(default_factory=dict)
    bundled: frozenset[str] | None = None
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    trusts: Callable[[Path], bool] = lambda _: True
    problems: tuple[Diagnostic, ...] = ()
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why a skill is excluded: the reason code, and the details in words."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Credential:
    """The variable that holds a skill's credential, and whether it is set; the value itself is not kept."""

    name: str
    is_set: bool


def evaluate_gate(
    gate: Gate, environment: Environment, entry: SkillEntry | None = None, primary_env: str | None = None
) -> Exclusion | None:
    """Return why `gate` excludes a skill in `environment`, None if it does not.

    `entry` is the skill's entry in `skills.json`; its credential replaces the variable `primary_env`.
    """
    entry = entry or _NO_ENTRY
    if gate.unreadable:
        more = f" (and {len(gate.unreadable) - 1} more)" if len(gate.unreadable) > 1 else ""
        return Exclusion(Reason.UNREADABLE_CONDITION, f"{gate.unreadable[0]}{more}")
    if gate.os and environment.os not in gate.os:
        return Exclusion(Reason.OS_MISMATCH, f"needs {_listed(gate.os, ' or ')}, this is {environment.os}")
    for name in gate.bins:
        if not environment.has_bin(name):
            return Exclusion(Reason.MISSING_BIN, f"{shortened(name, _SHOWN)!r} is not on the PATH")
    if gate.any_bins and not any(environment.has_bin(name) for name in gate.any_bins):
        return Exclusion(Reason.MISSING_BIN, f"none of {_listed(gate.any_bins, ', ')} is on the PATH")
    for name in gate.env:
        if not _is_set(name, environment, entry, primary_env):
            return Exclusion(
                Reason.MISSING_ENV, f"the environment variable {shortened(name, _SHOWN)} is unset or empty"
            )
    return _evaluate_config(gate, environment, entry)


def primary_credential(
    name: str | None, environment: Environment, entry: SkillEntry | None = None
) -> Credential | None:
    """Return the credential in the variable `name`, looked up as gates do; None if there is no name."""
    return Credential(name, _is_set(name, environment, entry or _NO_ENTRY, name)) if name else None


def _is_set(name: str, environment: Environment, entry: SkillEntry, primary_env: str | None) -> bool:
    by_credential = entry.has_credential and name == primary_env
    return bool(environment.variables.get(name) or entry.variables.get(name) or by_credential)


def _evaluate_config(gate: Gate, environment: Environment, entry: SkillEntry) -> Exclusion | None:
    for key, expected in gate.config:
        actual = _look_up(key, entry.config, environment.config)
        # Compared as JSON: in Python True == 1, in a configuration file they differ.
        if actual is _ABSENT or json.dumps(actual, sort_keys=True) != json.dumps(expected, sort_keys=True):
            detail = f"the configuration key {shortened(key, _SHOWN)} is not {_shown(expected)}"
            return Exclusion(Reason.CONFIG_DISABLED, detail)
    for key in gate.settings:
        if not any(_is_on(_look_up(key, config)) for config in (entry.config, environment.config)):
            return Exclusion(Reason.CONFIG_DISABLED, f"the configuration key {shortened(key, _SHOWN)} is unset or off")
    return None


def _listed(names: Sequence[str], joint: str) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return joint.join(shortened(name, _SHOWN) for name in names[:_MAX_NAMES]) + more


def _shown(value: JsonValue) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), _SHOWN)


def _is_on(value: object) -> bool:
    """Tell whether a setting is on as JD.AI reads it: the strings "", "false" and "0" are off."""
    if isinstance(value, str):
        return value.strip().lower() not in {"", "false", "0"}
    return value is not _ABSENT and bool(value)


def _look_up(key: str, *configs: Mapping[str, JsonValue]) -> object:
    """Return the value of a key, dotted or nested, from the first configuration that has it."""
    for config in configs:
        if key in config:
            return config[key]
        value: object = config
        for part in key.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is not _ABSENT:
            return value
    return _ABSENT


_MAX_CHAIN = 10
# Names of a chain of requirements that a detail shows.


class Requiring(NamedTuple):
    """The names that a skill has, the one to show first, and the names that it requires."""

    names: tuple[str, ...]
    requires: tuple[str, ...]


class _Cause(NamedTuple):
    """The unmet requirement of a skill: the name, and the number of the skill that has it, None if there is none."""

    name: str
    skill: int | None


def unmet_requirements(served: Sequence[Requiring], unserved: Mapping[str, str]) -> dict[int, Exclusion]:
    """Return the exclusions of skills with unmet requirements, by their numbers in `served`.

    `served` are the skills that are otherwise served; `unserved` maps other names to why they are not served. A name is
    provided by every skill that has it as its name or `skillKey`; where several do, one that is served is enough. A
    skill is excluded if it requires, directly or through others, a skill that is missing, not served or part of a
    cycle; the detail names the chain. Source: the capability format.
    """
    satisfied, met = _satisfied(served)
    rest = [number for number in range(len(served)) if number not in satisfied]
    first: dict[str, int] = {}
    for number in rest:
        for name in served[number].names:
            first.setdefault(name, number)
    causes = {number: _cause(served[number].requires, met, first) for number in rest}
    circular = _on_cycles(causes)
    return {number: _unmet(number, served, causes, circular, unserved) for number in rest}


def _satisfied(served: Sequence[Requiring]) -> tuple[set[int], set[str]]:
    """Return the skills whose requirements are met, and their names: those that require nothing, then their users."""
    dependents: dict[str, list[int]] = defaultdict(list)
    for number, skill in enumerate(served):
        for name in set(skill.requires):
            dependents[name].append(number)
    open_names = [len(set(skill.requires)) for skill in served]
    waiting = [number for number, count in enumerate(open_names) if not count]
    satisfied, met = set(waiting), set[str]()
    while waiting:
        for name in set(served[waiting.pop()].names) - met:
            met.add(name)
            for number in dependents[name]:
                open_names[number] -= 1
                if not open_names[number]:
                    satisfied.add(number)
                    waiting.append(number)
    return satisfied, met


def _cause(requires: Sequence[str], met: Container[str], first: Mapping[str, int]) -> _Cause:
    """Return the requirement that is to blame: one that no skill provides, else the first that is not met."""
    unmet = [name for name in requires if name not in met]
    name = next((each for each in unmet if each not in first), unmet[0])
    return _Cause(name, first.get(name))


def _on_cycles(causes: Mapping[int, _Cause]) -> set[int]:
    """Return the skills that require themselves by way of their causes."""
    circular: set[int] = set()
    visited: set[int] = set()
    for start in causes:
        path: list[int] = []
        at: int | None = start
        while at is not None and at not in visited:
            visited.add(at)
            path.append(at)
            at = causes[at].skill
        if at in path:
            circular.update(path[path.index(at) :])
    return circular


def _unmet(
    number: int,
    served: Sequence[Requiring],
    causes: Mapping[int, _Cause],
    circular: Container[int],
    unserved: Mapping[str, str],
) -> Exclusion:
    names, seen, last = [served[number].names[0]], {number}, number
    why = "is not served either"
    while len(names) <= _MAX_CHAIN:
        cause = causes[last]
        if cause.skill is None:
            names.append(cause.name)
            why = unserved.get(cause.name, "does not exist")
            break
        if cause.skill in seen:
            why = "is part of a circular requirement"
            break
        names.append(cause.name)
        last = cause.skill
        seen.add(last)
    if number in circular:
        return Exclusion(Reason.CIRCULAR_REQUIREMENT, f"requires itself: {_chain([*names, causes[last].name])}")
    return Exclusion(Reason.UNMET_REQUIREMENT, f"requires {_chain(names[1:])}, which {why}")


def _chain(names: Sequence[str]) -> str:
    return " → ".join(shortened(name, _SHOWN) for name in names)
