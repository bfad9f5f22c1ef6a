"""Read the configuration files of JD.AI: `config.json`, with keys for gates, and `skills.json`, with skill settings.

Both files may exist in `~/.jdai` and in the project's `.jdai`. The files of a trusted project override those of the
user: objects are merged key by key, other values are replaced. A diagnostic reports each file that is ignored, because
it is invalid or because the project is not trusted; the files of an untrusted project are not even opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.disk.files import read_bounded
from skills_core.errors import Fault, FileRefusedError
from skills_core.skills.gates import SkillEntry

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue
    from skills_core.skills.skill import Skill


JsonObject: TypeAlias = "dict[str, JsonValue]"

_CONFIG = ".jdai/config.json"
_SKILLS = ".jdai/skills.json"

_MAX_DEPTH = 64
# Objects nested more deeply are replaced instead of merged.

_SHOWN = 100
# Characters of a key that a diagnostic shows.

_DEBOUNCE_MS = (50, 5000)
# The bounds that JD.AI sets.


@dataclass(frozen=True, slots=True)
class JdaiSettings:
    """The settings from all files; a missing setting is None or empty.

    `config` has nested keys. `entries` maps lower-case skill keys to settings. `bundled` has the lower-case names and
    keys of the allowed bundled skills. `unread` is true if a file could not be read, but may be readable later.
    """

    watch: bool | None = None
    watch_debounce_ms: int | None = None
    config: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)
    entries: Mapping[str, SkillEntry] = field(default_factory=dict, repr=False)
    bundled: frozenset[str] | None = None
    problems: tuple[Diagnostic, ...] = ()
    unread: bool = False


class JdaiFiles:
    """The JD.AI files of the user and of a project."""

    def __init__(self, home: Path, project: Path) -> None:
        self._configs = (home / _CONFIG, project / _CONFIG)
        self._skills = (home / _SKILLS, project / _SKILLS)
        self._project = project
        self.of_project = () if project == home else (project / _CONFIG, project / _SKILLS)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of all files, whether they exist or not."""
        return (*self._configs, *self._skills)

    def read(self, *, trusted: bool) -> JdaiSettings:
        """Read the files of the user, and of the project if it is `trusted`."""
        problems = _Problems([] if trusted else [*self._untrusted_files()])
        config: JsonObject = {}
        skills: JsonObject = {}
        for path in self._configs if trusted else self._configs[:1]:
            higher = _read(path, problems)
            config = _merged({key: value for key, value in config.items() if not _hides(higher, key)}, higher)
        for path in self._skills if trusted else self._skills[:1]:
            root = _read(path, problems)
            skills = _merged(skills, _choices(root, path, problems))
        load = _object(skills.get("load"))
        watch, debounce = load.get("watch"), load.get("watchDebounceMs")
        entries = {key: _entry(fields) for key, fields in _entries(skills).items()}
        bundled = skills.get("allowBundled")
        return JdaiSettings(
            watch=watch if isinstance(watch, bool) else None,
            watch_debounce_ms=_clamped(debounce) if type(debounce) is int else None,
            config=config,
            entries=entries,
            bundled=_bundled(bundled),
            problems=tuple(problems.found),
            unread=problems.unread,
        )

    def _untrusted_files(self) -> Iterator[Diagnostic]:
        for path in filter(os.path.lexists, self.of_project):
            shown = printable(str(self._project))
            message = f"the project {shown} is not trusted, so this file is ignored"
            advice = f"if you trust its contents, run: skillserve trust {shown}"
            yield Diagnostic(Severity.WARNING, Reason.UNTRUSTED, f"{message}; {advice}", printable(str(path)))


def script_variables(home: Path, skill: Skill) -> dict[str, str]:
    """Return the environment variables that the user's own `skills.json` sets for a skill.

    These are its `env`, and its `apiKey` as the primary variable. Each call reads the file again. The file of a project
    is not used: it must not control the environment of programs.
    """
    root = _read(home / _SKILLS, _Problems())
    fields = _entries(_choices(root, home / _SKILLS, _Problems())).get(skill.skill_key.lower(), {})
    key, primary = _api_key(fields), skill.frontmatter.primary_env
    return {**({primary: key} if primary and key else {}), **_entry(fields).variables}


@dataclass(slots=True)
class _Problems:
    """The diagnostics of the files; `unread` is true if a file could not be read, but may be readable later."""

    found: list[Diagnostic] = field(default_factory=list)
    unread: bool = False

    def add(self, path: Path, message: str, line: int | None = None) -> None:
        where = printable(str(path))
        self.found.append(Diagnostic(Severity.WARNING, Reason.INVALID_CONFIGURATION, message, where, line))


def _read(path: Path, problems: _Problems) -> JsonObject:
    try:
        raw = read_bounded(path)
    except FileRefusedError as error:
        problems.unread |= error.fault is Fault.TRANSIENT
        problems.add(path, f"{error.message}; the file is ignored")
        return {}
    if raw is None:
        return {}
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        problems.add(path, "this is not valid JSON, so the file is ignored", line)
        return {}
    if not isinstance(value, dict):
        problems.add(path, "expected a JSON object; the file is ignored")
        return {}
    return value


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _merged(lower: JsonObject, higher: JsonObject, depth: int = 0) -> JsonObject:
    result = dict(lower)
    for key, value in higher.items():
        below = result.get(key)
        if isinstance(below, dict) and isinstance(value, dict) and depth < _MAX_DEPTH:
            value = _merged(below, value, depth + 1)  # noqa: PLW2901 - the merged value replaces it
        result[key] = value
    return result


def _hides(higher: JsonObject, key: str) -> bool:
    """Return whether `higher` has, as nested objects, the dotted key of a lower file."""
    if "." not in key:
        return False
    value: JsonValue = higher
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True


def _choices(root: JsonObject, path: Path, problems: _Problems) -> JsonObject:
    """Return the settings of a `skills.json`, and report those that are unclear."""
    skills = root.get("skills") if "skills" in root else root
    for name, value in (("skills", skills), ("entries", _object(skills).get("entries"))):
        if value is not None and not isinstance(value, dict):
            problems.add(path, f"{name} must be an object; it is ignored")
    bundled = _object(skills).get("allowBundled")
    if bundled is not None and not isinstance(bundled, list | str):
        problems.add(path, "allowBundled must be a list of names; no bundled skill is served")
    for key, fields in _entries(_object(skills)).items():
        enabled = fields.get("enabled")
        if enabled is not None and _as_flag(enabled) is None:
            problems.add(path, f"enabled of {printable(key[:_SHOWN])!r} must be true or false; the skill is disabled")
    return _object(skills)


def _entries(skills: JsonObject) -> dict[str, JsonObject]:
    """Return the entries by key in lower case; `false` stands for an entry that only disables the skill."""
    entries: dict[str, JsonObject] = {}
    for key, value in _object(skills.get("entries")).items():
        fields: JsonObject = value if isinstance(value, dict) else {} if value is None else {"enabled": value}
        name = key.strip().lower()
        entries[name] = _merged(entries.get(name, {}), fields)
    return entries


def _bundled(names: JsonValue) -> frozenset[str] | None:
    """Return the allowed bundled skills, None for all; of an unclear value, none."""
    if names is None or names == []:
        return None
    listed = [names] if isinstance(names, str) else names if isinstance(names, list) else []
    return frozenset(str(each).lower() for each in listed)


def _as_flag(value: JsonValue) -> bool | None:
    """Return a boolean, or the one in a text, as JD.AI reads it; None for everything else."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _entry(fields: JsonObject) -> SkillEntry:
    enabled = fields.get("enabled")
    variables = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in _object(fields.get("env")).items()
        if value is not None
    }
    return SkillEntry(
        # An unclear choice disables the skill, because most entries are there to do that.
        enabled=None if enabled is None else bool(_as_flag(enabled)),
        variables=variables,
        has_credential=bool(_api_key(fields).strip()),
        config=_object(fields.get("config")),
    )


def _api_key(fields: JsonObject) -> str:
    key = fields.get("apiKey")
    if isinstance(key, dict):
        key = key.get("value")
    return key if isinstance(key, str) else ""


def _clamped(value: int) -> int:
    low, high = _DEBOUNCE_MS
    return min(max(value, low), high)
