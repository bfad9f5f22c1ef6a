"""Gates: the conditions in `when` under which a skill is there, and their evaluation.

Source: JD.AI's skill lifecycle. All conditions are combined with AND; the first one that fails, in the order
os, bins, anyBins, env, config, gives the reason. The environment is a value, so that a test or a user can
evaluate a gate for a machine other than this one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skills_core.fields import FieldReader
    from skills_core.yaml12 import JsonValue

__all__ = ["OPEN", "Environment", "Exclusion", "Gate", "evaluate_gate", "read_gate"]


@dataclass(frozen=True, slots=True)
class Gate:
    """What a skill needs; an empty gate is always open."""

    os: str | None = None
    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[tuple[str, JsonValue], ...] = ()


OPEN = Gate()


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine a gate is evaluated for.

    `os` is `windows`, `linux` or `macos`; `has_bin` tells whether an executable is on the search path;
    `config` maps dotted keys to values.
    """

    os: str
    has_bin: Callable[[str], bool]
    variables: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why a gate is closed: the reason, and the missing thing in words."""

    reason: Reason
    detail: str


def read_gate(reader: FieldReader) -> Gate:
    """Read the `when` mapping."""
    if not reader.fields:
        return OPEN
    requires = reader.within("requires")
    config = requires.mapping("config")
    return Gate(
        os=(reader.text("os") or "any").lower(),
        bins=requires.texts("bins"),
        any_bins=requires.texts("anyBins"),
        env=requires.texts("env"),
        config=tuple(config.items()),
    )


def evaluate_gate(gate: Gate, environment: Environment) -> Exclusion | None:
    """Return why `gate` is closed in `environment`, or None where it is open."""
    if gate.os not in {None, "any", environment.os}:
        return Exclusion(Reason.OS_MISMATCH, f"needs {gate.os}, this is {environment.os}")
    for name in gate.bins:
        if not environment.has_bin(name):
            return Exclusion(Reason.MISSING_BIN, f"{name!r} is not on the PATH")
    if gate.any_bins and not any(environment.has_bin(name) for name in gate.any_bins):
        return Exclusion(Reason.MISSING_BIN, f"none of {', '.join(gate.any_bins)} is on the PATH")
    for name in gate.env:
        if not environment.variables.get(name):
            return Exclusion(Reason.MISSING_ENV, f"the environment variable {name} is not set or empty")
    for key, expected in gate.config:
        actual = environment.config.get(key)
        # Typed equality, all the way down: in Python True == 1, in a configuration file they differ.
        if key not in environment.config or json.dumps(actual, sort_keys=True) != json.dumps(expected, sort_keys=True):
            return Exclusion(Reason.CONFIG_DISABLED, f"the configuration key {key} is not {expected!r}")
    return None
