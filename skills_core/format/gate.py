"""Gates in frontmatter: the field `when`, and the metadata of JD.AI and other hosts.

A condition that cannot be read is not met. `skills_core.skills.gates` evaluates gates.

Conditions under keys that skillserve does not read are found too, so that a slip in a key leaves no condition out: a
key means a known one if both have the same letters and digits, whatever the case, spaces, signs and hidden characters;
of a key such as `when.os` or `when:{os`, the part before the sign counts as well.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import Reason, Severity

if TYPE_CHECKING:
    from skills_core.format.document import Document
    from skills_core.format.fields import FieldReader
    from skills_core.format.yaml12 import JsonValue


_MERGE_KEY: Final = "<<"
# The key with which YAML 1.1 merges mappings; in YAML 1.2 it is a key like others.

_MAX_KEY: Final = 64
# Characters of a key that are compared; longer keys mean nothing else.

_SIGN: Final = re.compile(r"[.:={\[<>|#!?@&*%/\\]")
# Not a space or a hyphen: `when-to-use` is another field.

_LOST: Final = {
    "when": re.compile(r"^\W*when\s*(?:[^\w\s,.;)-]|$)(?=[\s\S]*\b(?:os|requires)\b)", re.MULTILINE | re.IGNORECASE),
    "requires": re.compile(r"^requires\s*[:={\[]", re.MULTILINE),
    "metadata": re.compile(r"^\W*metadata\b(?=[\s\S]*\b(?:os|requires)\b)", re.MULTILINE | re.IGNORECASE),
}
# Lines that begin with a field of conditions; prose may begin with the same words.

_FIELDS: Final = ("when", "requires")
_PARTS: Final = ("os", "requires", "bins", "anyBins", "env", "config")

_SIMILAR_TO_WHEN: Final = 0.6
_SIMILAR_TO_A_PART: Final = 0.75
# The ratios from which on a key counts as misspelt; `when` must also hold the parts of one.


@lru_cache(1024)
def _meant_by(key: str, known: tuple[str, ...]) -> str | None:
    """Return the known key that an unknown one means, None if it means none."""
    if len(key) > _MAX_KEY:
        return None
    written = {_folded(key), _folded(_SIGN.split(key.strip(), maxsplit=1)[0])}
    return next((name for name in known if _folded(name) in written), None)


def _meant_field(key: str, value: JsonValue) -> str | None:
    """Return the known field that an unknown top-level field means if it states conditions, else None."""
    if value in (None, "", [], {}):
        return None
    if key == _MERGE_KEY:
        merged = value if isinstance(value, list) else [value]
        names = (name for each in merged if isinstance(each, dict) for name in each)
        return next((name for name in names if name in {*_FIELDS, "metadata"}), None)
    if meant := _meant_by(key, _FIELDS) or ("when" if _resembles_when(key, value) else None):
        return meant
    return "metadata" if _meant_by(key, ("metadata",)) and _names_a_host(value) else None


def _stray_settings(keys: Iterable[str], *, strict: bool) -> dict[str, str]:
    """Return the unknown keys in the settings of a host that state conditions, with the known keys that they mean.

    With `strict`, misspelt and misplaced conditions count too; else, the host may know such a key.
    """
    found: dict[str, str] = {}
    for key in keys:
        meant = "requires" if key == _MERGE_KEY else _meant_by(key, ("os", "requires"))
        if strict and meant is None:
            meant = "requires" if _meant_by(key, (*_PARTS, "when")) else _similar_part(key)
        if meant is not None:
            found[key] = meant
    return found


def _similar_part(key: str) -> str | None:
    import difflib  # noqa: PLC0415 - few keys are unknown; at the top, every start would pay for it

    written = _folded(key[:_MAX_KEY])
    if written.startswith("requir"):
        return "requires"
    return next(iter(difflib.get_close_matches(written, ("os", "requires"), 1, _SIMILAR_TO_A_PART)), None)


def _resembles_when(key: str, value: JsonValue) -> bool:
    """Tell whether a misspelt `when` holds the parts of one."""
    if not isinstance(value, dict) or len(key) > _MAX_KEY or not any(_meant_by(part, _PARTS) for part in value):
        return False
    import difflib  # noqa: PLC0415 - few keys are unknown; at the top, every start would pay for it

    return difflib.SequenceMatcher(None, _folded(key), "when").ratio() >= _SIMILAR_TO_WHEN


@lru_cache(1024)
def _folded(key: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKC", key).casefold() if char.isalnum())


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

_HOST_SETTINGS = re.compile(rf"({'|'.join(_HOSTS)})[\"']?\s*:")
_CONDITIONS = re.compile(r"\b(os|requires)[\"']?\s*:", re.IGNORECASE)


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


OPEN: Final = Gate()
"""The gate without conditions."""

_NO_METADATA = HostMetadata({}, OPEN)


def read_gate(front: FieldReader, document: Document) -> Gate:
    """Read the field `when` of a frontmatter."""
    if "when" not in front.fields and document.is_whole:
        return OPEN
    if lost := _lost_conditions(front, document, "when"):
        return Gate(unreadable=(lost,))
    if front.fields.get("when") is None:
        return OPEN
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


def read_requires(front: FieldReader, document: Document) -> tuple[tuple[str, ...], Gate]:
    """Read the names of required skills, and the gate that is closed if they cannot be read."""
    if "requires" not in front.fields and document.is_whole:
        return (), OPEN
    lost = _lost_conditions(front, document, "requires")
    unreadable = [lost] if lost else []
    names = front.gating(unreadable).texts("requires")
    return names, Gate(unreadable=tuple(unreadable))


def read_stray_conditions(front: FieldReader, unknown: Sequence[str]) -> tuple[Gate, frozenset[str]]:
    """Diagnose unknown fields that state conditions; return the gate that they close, and the fields."""
    if not unknown:
        return OPEN, frozenset()
    unreadable: list[str] = []
    meant = ((key, _meant_field(key, front.fields[key])) for key in unknown)
    strays = {key: field for key, field in meant if field is not None}
    front.gating(unreadable).check_meant(strays)
    return Gate(unreadable=tuple(unreadable)), frozenset(strays)


def _lost_conditions(front: FieldReader, document: Document, field: str) -> str | None:
    """Return and diagnose how a field of conditions lost a part of its text, None if it did not."""
    lost = None
    if field in document.lossy:
        lost = f"{field}: {document.lossy[field]}"
    elif document.broken and field not in document.fields and _LOST[field].search(document.broken):
        lost = f"{field}: the text is not valid YAML"
    if lost is not None:
        front.add(Severity.WARNING, Reason.INVALID_FIELD, f"{lost}; the skill is excluded", field)
    return lost


def read_metadata(front: FieldReader, document: Document) -> HostMetadata:
    """Read the field `metadata` of a frontmatter.

    With `always`, the requirements of a host do not apply, nor does `os` to JD.AI. Metadata of other hosts is theirs:
    skillserve leaves their keys alone, and checks no requirements that it does not know.
    """
    value = front.fields.get("metadata")
    if value is None and document.is_whole:
        return _NO_METADATA
    unreadable: list[str] = []
    outer = front if isinstance(value, dict) or not _names_a_host(value) else front.gating(unreadable)
    metadata = outer.within("metadata").gating(None)
    host = next((name for name in _HOSTS if metadata.fields.get(name) is not None), None)
    _check_hosts(metadata, host, unreadable)
    # The lost part may be all settings of a host.
    names_a_host = any(name in (document.broken or document.yaml) for name in _HOSTS)
    lost = _lost_conditions(front, document, "metadata") if names_a_host else None
    unreadable += [lost] if lost else []
    if host is None:
        return HostMetadata(metadata.fields, Gate(unreadable=tuple(unreadable)))
    is_jdai = host == "jdai"
    gates = is_jdai or _states_conditions(metadata.fields[host])
    settings = metadata.gating(unreadable if gates else None).within(host).gating(None)
    strays = _stray_settings((key for key in settings.fields if key not in _JDAI), strict=is_jdai)
    settings.gating(unreadable).check_meant(strays)
    if is_jdai:
        settings.without(strays).check_keys(_JDAI)
    always = settings.flag("always") and lost is None
    gate = _read_host_gate(settings, unreadable, always=always, is_jdai=is_jdai)
    return HostMetadata(
        metadata.fields,
        gate,
        skill_key=settings.text("skillKey"),
        primary_env=settings.text("primaryEnv"),
        # In other hosts it means "whatever is missing", only in JD.AI "for every message".
        always=always and is_jdai,
    )


def _check_hosts(metadata: FieldReader, host: str | None, unreadable: list[str]) -> None:
    """Diagnose keys that mean a host, unless another one counts before it."""
    counting = _HOSTS if host is None else _HOSTS[: _HOSTS.index(host) + 1]
    unknown = (key for key in metadata.fields if key not in _HOSTS)
    meant = {key: name for key in unknown if (name := _meant_by(key, counting)) is not None}
    strays = {key: name for key, name in meant.items() if _states_conditions({key: metadata.fields[key]})}
    metadata.gating(unreadable).check_meant(strays)


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
    """Tell whether metadata that is not a mapping looks like the settings of a host: a list, JSON or YAML in a text."""
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    is_json = text.lstrip().startswith(("{", "["))
    return _HOST_SETTINGS.search(text) is not None or (is_json and any(name in text for name in _HOSTS))


def _states_conditions(settings: JsonValue) -> bool:
    """Tell whether the settings of a host, of any type, state conditions."""
    text = settings if isinstance(settings, str) else json.dumps(settings)
    return _CONDITIONS.search(text) is not None
