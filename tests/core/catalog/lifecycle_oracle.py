"""An oracle: which skill is served and why, computed naively from the documents and without code of the product.

The rules are those of JD.AI's lifecycle (precedence, validation, conflicts before gates, gates combined with AND, and
their reasons) and of the design's sections on sources and frontmatter (strictness, trust). `decide` takes a world in
the abstract. Where several reasons are true of a skill at once, each of them is right.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["PLACES", "Decision", "Machine", "Needs", "Place", "Raw", "Written", "decide"]

Value: TypeAlias = "str | bool | int | None"


@dataclass(frozen=True)
class Place:
    """A source: where it is, how strict it is, and whether it is a project's."""

    path: str
    strictness: str
    of_project: bool = False
    bundled: bool = False


PLACES = (
    Place("project/sub/.jdai/skills", "jdai", of_project=True),
    Place("project/sub/.agents/skills", "lenient", of_project=True),
    Place("project/sub/.skills", "required", of_project=True),
    Place("project/.jdai/skills", "jdai", of_project=True),
    Place("project/.agents/skills", "lenient", of_project=True),
    Place("project/.skills", "required", of_project=True),
    Place("home/.jdai/skills", "jdai"),
    Place("xdg/skillserve/skills", "lenient"),
    Place("home/.agents/skills", "lenient"),
    Place("home/.jdai/plugins/some-plugin/skills", "jdai"),
    Place("bundled", "lenient", bundled=True),
    Place("home/.config/agenvoy/skills", "lenient"),
    Place("home/.claude/skills", "lenient"),
    Place("project/sub/.claude/skills", "lenient", of_project=True),
    Place("project/.claude/skills", "lenient", of_project=True),
)
"""All sources of a project in `project`, opened in `project/sub`, the highest precedence first."""


@dataclass(frozen=True)
class Needs:
    """Conditions. `config` are values that keys must have; `settings` are keys that must be on."""

    os: tuple[str, ...] = ()
    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[tuple[str, Value], ...] = ()
    settings: tuple[str, ...] = ()
    always: bool = False


@dataclass(frozen=True)
class Raw:
    """JSON that stands at a path of keys, such as `when.requires.bins`, whatever belongs there."""

    path: str
    json: str

    def as_fields(self) -> dict[str, Any]:
        value = json.loads(self.json)
        for key in reversed(self.path.split(".")):
            value = {key: value}
        return dict(value)


@dataclass(frozen=True)
class Written:
    """A skill as written; `name` is None if the field is absent.

    `when` are the conditions in that field, `metadata` those under the name `host`; `raw` replaces both.
    """

    place: Place
    folder: str
    name: str | None
    described: bool = True
    stray_field: bool = False
    frontmatter: bool = True
    when: Needs | None = None
    host: str = "jdai"
    metadata: Needs | None = None
    raw: Raw | None = None

    @property
    def folder_name(self) -> str:
        return self.folder.split("/")[-1]

    @property
    def known_as(self) -> str:
        return self.name if self.name is not None and self.frontmatter else self.folder_name


@dataclass(frozen=True)
class Machine:
    """Where skills are served. The two configurations have dotted keys."""

    os: str = "linux"
    bins: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=dict)
    user_config: Mapping[str, Value] = field(default_factory=dict)
    project_config: Mapping[str, Value] = field(default_factory=dict)
    trusted: bool = True
    switched_off: frozenset[str] = frozenset()
    allowed_bundled: frozenset[str] | None = None


@dataclass(frozen=True)
class Decision:
    """A state, and all reasons that would be right; none for a skill that is served."""

    state: str
    reasons: frozenset[str] = frozenset()

    def allows(self, state: str, reason: str | None) -> bool:
        return state == self.state and (reason in self.reasons if self.reasons else reason is None)


def decide(skills: Iterable[Written], machine: Machine, places: tuple[Place, ...] = PLACES) -> dict[Written, Decision]:
    """Return the decision on each skill."""
    decisions: dict[Written, Decision] = {}
    taken: set[str] = set()
    by_place: dict[str, list[Written]] = {}
    for skill in skills:
        by_place.setdefault(skill.place.path, []).append(skill)
    for place in places:
        won: set[str] = set()
        for skill in by_place.get(place.path, []):
            decisions[skill] = _decide_one(skill, machine, taken)
            if decisions[skill].state != "invalid" and "untrusted_project" not in decisions[skill].reasons:
                won.add(skill.known_as)
        taken |= won
    return decisions


def _decide_one(skill: Written, machine: Machine, taken: set[str]) -> Decision:
    faults = _faults(skill)
    if faults:
        return Decision("invalid", frozenset(faults))
    if skill.place.of_project and not machine.trusted:
        return Decision("excluded", frozenset({"untrusted_project"}))
    if skill.known_as in taken:
        return Decision("shadowed", frozenset({"shadowed"}))
    closed = _closed(skill, machine)
    return Decision("excluded", frozenset(closed)) if closed else Decision("active")


def _faults(skill: Written) -> set[str]:
    if not skill.frontmatter:
        return {"missing_frontmatter"}
    faults = set()
    if not skill.described:
        faults.add("missing_description")
    if skill.name is None and skill.place.strictness in {"required", "jdai", "strict"}:
        faults.add("missing_name")
    if skill.place.strictness in {"jdai", "strict"}:
        if skill.stray_field:
            faults.add("unknown_field")
        if skill.raw is not None:
            faults |= _readings(skill.raw).faults
    if skill.place.strictness == "strict":
        if skill.name is not None and skill.name != skill.folder_name:
            faults.add("name_mismatch")
        if skill.name is not None and skill.name != skill.name.lower():
            faults.add("invalid_name")
    return faults


def _closed(skill: Written, machine: Machine) -> set[str]:
    closed = set()
    # The documents are silent on case here; JD.AI's own code does not mind it.
    key = skill.known_as.lower()
    if key in machine.switched_off:
        closed.add("disabled_by_config")
    if skill.place.bundled and machine.allowed_bundled is not None and key not in machine.allowed_bundled:
        closed.add("bundled_not_allowlisted")
    if skill.raw is not None:
        readings = _readings(skill.raw)
        closed |= {"unreadable_condition"} if readings.unreadable else set()
        return closed | _unmet(readings.needs(), machine)
    if skill.when is not None:
        closed |= _unmet(skill.when, machine)
    if skill.metadata is not None:
        unmet = _unmet(skill.metadata, machine)
        if skill.metadata.always:
            # To JD.AI this does away with all conditions, to OpenClaw with all but the system.
            unmet = set() if skill.host == "jdai" else unmet & {"os_mismatch"}
        closed |= unmet
    return closed


def _unmet(needs: Needs, machine: Machine) -> set[str]:
    unmet = set()
    if needs.os and "any" not in needs.os and machine.os not in needs.os:
        unmet.add("os_mismatch")
    if any(name not in machine.bins for name in needs.bins):
        unmet.add("missing_bin")
    if needs.any_bins and all(name not in machine.bins for name in needs.any_bins):
        unmet.add("missing_bin")
    if any(machine.env.get(name, "") == "" for name in needs.env):
        unmet.add("missing_env")
    config = {**machine.user_config, **(machine.project_config if machine.trusted else {})}
    for key, value in needs.config:
        if key not in config or config[key] != value or type(config[key]) is not type(value):
            unmet.add("config_disabled")
    for key in needs.settings:
        if not config.get(key) or config[key] in {"false", "0"}:
            unmet.add("config_disabled")
    return unmet


KEYS = {
    "when": {"os", "requires"},
    "when.requires": {"bins", "anyBins", "env", "config"},
    "metadata.jdai": {"os", "requires", "always", "skillKey", "primaryEnv", "emoji", "homepage", "install"},
    "metadata.jdai.requires": {"bins", "anyBins", "env", "config"},
    "evaluation": {"enabled", "minScore", "maxRetries", "criteria", "allowSideEffects"},
    "tools": {"name", "description", "parameters", "script"},
}
"""The keys of each mapping whose keys are ours."""

NAMES = {"os", "requires.bins", "requires.anyBins", "requires.env"}
NAMES = {f"{above}.{name}" for above in ("when", "metadata.jdai") for name in NAMES} | {"metadata.jdai.requires.config"}
"""Where a list of names stands."""

CONDITIONS = {"when", "when.requires", "when.requires.config", "metadata.jdai", "metadata.jdai.requires", *NAMES}
"""Where what cannot be read excludes the skill."""


@dataclass
class Readings:
    """What was read in raw fields: reasons of diagnostics, names by path, and whether a condition is unreadable."""

    faults: set[str] = field(default_factory=set)
    unreadable: bool = False
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    config: tuple[tuple[str, Value], ...] = ()

    def refuse(self, path: str, fault: str) -> None:
        self.faults.add(fault)
        self.unreadable |= path in CONDITIONS

    def needs(self) -> Needs:
        host = "when" if any(path.startswith("when") for path in self.names) else "metadata.jdai"
        return Needs(
            os=self.names.get(f"{host}.os", ()),
            bins=self.names.get(f"{host}.requires.bins", ()),
            any_bins=self.names.get(f"{host}.requires.anyBins", ()),
            env=self.names.get(f"{host}.requires.env", ()),
            config=self.config,
            settings=self.names.get("metadata.jdai.requires.config", ()),
        )


def _readings(raw: Raw) -> Readings:
    readings = Readings()
    (field_name, value), *_ = raw.as_fields().items()
    if field_name == "metadata":
        field_name, value = "metadata.jdai", value["jdai"]
    for each in value if field_name == "tools" else [value]:
        _read(field_name, each, readings)
    return readings


def _read(path: str, value: Any, readings: Readings) -> None:
    if value is None:
        return
    if path in NAMES:
        _read_names(path, value, readings)
    elif path in KEYS and isinstance(value, dict):
        for key, inner in value.items():
            if key not in KEYS[path]:
                readings.faults.add("unknown_field")
                # `metadata.jdai` has keys that are no conditions.
                readings.unreadable |= path in CONDITIONS - {"metadata.jdai"}
            else:
                _read(f"{path}.{key}", inner, readings)
    elif path == "when.requires.config" and isinstance(value, dict):
        readings.config = tuple(value.items())
    elif path in KEYS or path == "when.requires.config":
        if value in ("", [], {}):
            readings.faults.add("invalid_field")
        else:
            readings.refuse(path, "invalid_field")


def _read_names(path: str, value: Any, readings: Readings) -> None:
    listed = value.split(",") if isinstance(value, str) else value
    if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        names = tuple(name.strip() for name in listed if name.strip())
        if path.endswith(".os"):
            names = tuple({"win32": "windows", "darwin": "macos"}.get(name.lower(), name.lower()) for name in names)
            readings.faults |= {"invalid_field" for name in names if name not in {"windows", "linux", "macos", "any"}}
        readings.names[path] = names
    elif listed == {}:
        readings.faults.add("invalid_field")
    else:
        readings.refuse(path, "invalid_field")
