"""Gates in frontmatter: the field `when`, and the metadata of JD.AI and other hosts.

`skills_core.gates` evaluates them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skills_core.format.fields import FieldReader
    from skills_core.format.yaml12 import JsonValue

__all__ = ["Gate", "read_gate", "read_provider_gate"]

_SYSTEMS = {"win32": "windows", "darwin": "macos"}
# The names of Node, used in `metadata.openclaw`, and those of `when`.


@dataclass(frozen=True, slots=True)
class Gate:
    """The conditions of a skill; an empty gate is always open.

    `os` lists the supported systems, empty for all. `config` pairs dotted keys with the values that they must have;
    `settings` are dotted keys that must be set, and not to false, zero or an empty value.
    """

    os: tuple[str, ...] = ()
    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[tuple[str, JsonValue], ...] = ()
    settings: tuple[str, ...] = ()


def read_gate(reader: FieldReader) -> Gate:
    """Read the `when` mapping."""
    if not reader.fields:
        return Gate()
    requires = reader.within("requires")
    config = requires.mapping("config")
    system = (reader.text("os") or "any").lower()
    return Gate(
        os=() if system == "any" else (_SYSTEMS.get(system, system),),
        bins=requires.texts("bins"),
        any_bins=requires.texts("anyBins"),
        env=requires.texts("env"),
        config=tuple(config.items()),
    )


def read_provider_gate(reader: FieldReader, *, always_includes_os: bool) -> Gate:
    """Read the conditions in `metadata.jdai`, or in the metadata of another host.

    With `always`, the requirements do not apply, nor does `os` if `always_includes_os`; JD.AI and OpenClaw differ.
    """
    if not reader.fields:
        return Gate()
    systems = tuple(_SYSTEMS.get(name.lower(), name.lower()) for name in reader.texts("os"))
    systems = () if "any" in systems else systems
    if reader.flag("always"):
        return Gate() if always_includes_os else Gate(os=systems)
    requires = reader.within("requires")
    return Gate(
        os=systems,
        bins=requires.texts("bins"),
        any_bins=requires.texts("anyBins"),
        env=requires.texts("env"),
        settings=requires.texts("config"),
    )
