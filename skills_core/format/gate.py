"""Gates in frontmatter: the field `when`, and the metadata of JD.AI and other hosts.

A condition that cannot be read is not met. `skills_core.gates` evaluates gates.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.format.fields import FieldReader
    from skills_core.format.yaml12 import JsonValue

__all__ = ["Gate", "HostMetadata", "read_gate", "read_metadata"]

_SYSTEMS = {"win32": "windows", "darwin": "macos"}
# The names of Node, used in `metadata.openclaw`, and those of `when`.

_KNOWN_SYSTEMS = frozenset({"windows", "linux", "macos", "any"})

_WHEN = frozenset({"os", "requires"})
_REQUIREMENTS = frozenset({"bins", "anyBins", "env", "config"})

_HOSTS = ("jdai", "openclaw", "clawdbot", "moltbot", "clawdis")
# The metadata keys that hold conditions; the first one present counts. The last three are former names of OpenClaw that
# thousands of public skills use.

_JDAI = frozenset({"os", "requires", "always", "skillKey", "primaryEnv", "emoji", "homepage", "install"})
# JD.AI accepts the last three, which have no effect here.


@dataclass(frozen=True, slots=True)
class Gate:
    """The conditions of a skill; an empty gate is always open.

    `os` lists the supported systems, empty for all. `config` pairs dotted keys with the values that they must have;
    `settings` are dotted keys that must be set, and not to false, zero or an empty value. `unreadable` says of each
    condition that cannot be read what is wrong with it; none of them is met.
    """

    os: tuple[str, ...] = ()
    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[tuple[str, JsonValue], ...] = ()
    settings: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostMetadata:
    """The field `metadata`: all of it as `fields`, and what JD.AI or another host reads in it.

    `always` tells that the skill applies to every task.
    """

    fields: Mapping[str, JsonValue]
    gate: Gate
    skill_key: str | None = None
    primary_env: str | None = None
    always: bool = False


def read_gate(front: FieldReader) -> Gate:
    """Read the field `when` of a frontmatter."""
    if front.fields.get("when") is None:
        return Gate()
    unreadable: list[str] = []
    when = front.gating(unreadable).within("when")
    when.check_keys(_WHEN)
    requires = when.within("requires")
    requires.check_keys(_REQUIREMENTS)
    return Gate(
        os=_read_systems(when),
        bins=requires.texts("bins"),
        any_bins=requires.texts("anyBins"),
        env=requires.texts("env"),
        config=tuple(requires.mapping("config").items()),
        unreadable=tuple(unreadable),
    )


def read_metadata(front: FieldReader) -> HostMetadata:
    """Read the field `metadata` of a frontmatter.

    With `always`, the requirements of a host do not apply, nor does `os` to JD.AI. Metadata of other hosts is theirs:
    skillserve leaves their keys alone, and checks no requirements that it does not know.
    """
    value = front.fields.get("metadata")
    if value is None:
        return HostMetadata({}, Gate())
    unreadable: list[str] = []
    outer = front if isinstance(value, dict) or not _names_a_host(value) else front.gating(unreadable)
    metadata = outer.within("metadata").gating(None)
    host = next((name for name in _HOSTS if name in metadata.fields), None)
    if host is None:
        return HostMetadata(metadata.fields, Gate(unreadable=tuple(unreadable)))
    is_jdai = host == "jdai"
    settings = metadata.gating(unreadable if is_jdai else None).within(host).gating(None)
    always = settings.flag("always")
    if is_jdai:
        settings.check_keys(_JDAI)
    gate = _read_host_gate(settings, unreadable, always=always, is_jdai=is_jdai)
    return HostMetadata(
        metadata.fields,
        gate,
        skill_key=settings.text("skillKey"),
        primary_env=settings.text("primaryEnv"),
        # In other hosts it means "whatever is missing", only in JD.AI "for every message".
        always=always and is_jdai,
    )


def _read_host_gate(settings: FieldReader, unreadable: list[str], *, always: bool, is_jdai: bool) -> Gate:
    """Read the conditions in the settings of a host; what does not apply is diagnosed, but excludes no skill."""
    conditions = settings.gating(unreadable)
    systems = _read_systems(settings if always and is_jdai else conditions)
    requires = (settings if always else conditions).within("requires")
    requires.check_keys(_REQUIREMENTS, Severity.WARNING if is_jdai else Severity.INFO)
    gate = Gate(
        os=systems,
        bins=requires.texts("bins"),
        any_bins=requires.texts("anyBins"),
        env=requires.texts("env"),
        settings=requires.texts("config"),
        unreadable=tuple(unreadable),
    )
    if not always:
        return gate
    return Gate() if is_jdai else Gate(os=gate.os, unreadable=gate.unreadable)


def _read_systems(reader: FieldReader) -> tuple[str, ...]:
    """Return the systems under `os`, one of which must be this one; empty for all of them."""
    systems = tuple(_SYSTEMS.get(name.lower(), name.lower()) for name in reader.texts("os"))
    unknown = next((name for name in systems if name not in _KNOWN_SYSTEMS), None)
    if unknown is not None:
        fault = f"{reader.prefix}os: the unknown system {unknown[:60]!r} never matches"
        message = f"{fault}; known are windows, linux, macos and any"
        reader.add(Severity.WARNING, Reason.INVALID_FIELD, message, "os")
    return () if "any" in systems else systems


def _names_a_host(metadata: JsonValue) -> bool:
    """Tell whether metadata that is no mapping looks like a list or JSON with the settings of a host."""
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    return text.lstrip().startswith(("{", "[")) and any(name in text for name in _HOSTS)
