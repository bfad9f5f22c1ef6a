"""Typed frontmatter: the union of five formats, with a diagnostic for each fault.

Sources of the rules: agentskills.io (`name description license compatibility metadata allowed-tools`), adk-skill
(`version tags references trigger hint`), JD.AI (`when evaluation metadata.jdai`), the capability format
(`version triggers tools danger_patterns confirm_patterns requires`), and fields common in public skills.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from skills_core.diagnostics import MAX_PER_REASON, Diagnostic, Reason, Severity, capped
from skills_core.errors import did_you_mean
from skills_core.format.document import read_lines
from skills_core.format.fields import FieldReader
from skills_core.format.gate import OPEN, Gate, read_gate, read_metadata, read_requires, read_stray_conditions
from skills_core.values import value_type

if TYPE_CHECKING:
    from skills_core.format.document import Document
    from skills_core.format.yaml12 import JsonValue


_MAX_LENGTH = 256
# Maximum characters of a version; npm has the same limit.

_NUMBER = r"0|[1-9][0-9]*"
_PRERELEASE = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_BUILD = r"[0-9A-Za-z-]+"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PRERELEASE}(?:\.{_PRERELEASE})*))?(?:\+{_BUILD}(?:\.{_BUILD})*)?"
)


Precedence: TypeAlias = tuple[int, int, int, bool, tuple[tuple[int, int, str], ...]]
"""What orders semantic versions: three numbers, whether it is a release, and the identifiers of a prerelease."""


def version_precedence(text: str) -> Precedence | None:
    """Return the precedence of a semantic version (semver.org 2.0.0), None if the text, such as `v1.0`, is not one.

    A release follows its prereleases, numbers precede texts, more identifiers win, and builds do not count.
    `packaging` implements another standard, that of Python: it refuses most prereleases, and ranks builds.
    """
    parts = _VERSION.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if parts is None:
        return None
    major, minor, patch, prerelease = parts.groups()
    written = prerelease.split(".") if prerelease else []
    identifiers = tuple((0, int(each), "") if each.isdigit() else (1, 0, each) for each in written)
    return int(major), int(minor), int(patch), not prerelease, identifiers


NAME_LIMIT = 64
DESCRIPTION_LIMIT = 1024
COMPATIBILITY_LIMIT = 500

_SHOWN = 60
# Characters of a value that a message quotes.

# Fields of other hosts in public skills: they cause no warning, are kept in `raw`, and have no effect.
_FOREIGN_FIELDS = frozenset(
    {"agent", "arguments", "author", "category", "color", "context", "dependencies", "effort", "homepage", "hooks"}
    | {"icon", "keywords", "language", "model", "paths", "priority", "repository", "shell", "source", "title"}
    | {"authors", "command", "displayName", "repo", "risk", "slug", "summary", "type"}
    | {"command-arg-mode", "command-dispatch", "command-tool"}
)

_EVALUATION_FIELDS = frozenset({"enabled", "minScore", "maxRetries", "criteria", "allowSideEffects"})
_TOOL_FIELDS = frozenset({"name", "description", "parameters", "script"})


_YES = frozenset({"yes", "y", "on", "1"})
# Other ways to write true, in YAML 1.1 among others.


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The `evaluation` block of JD.AI: how the output of a run is scored (0 to 1) and retried."""

    enabled: bool
    min_score: float
    max_retries: int
    criteria: tuple[str, ...]
    allow_side_effects: bool


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A tool that a skill declares; `parameters` is a JSON Schema, `script` the skill's file that implements it."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    script: str | None = None


@value_type(frozen=True, slots=True, kw_only=True)
class Frontmatter:
    """All known fields of one SKILL.md, typed. `written` is the whole mapping as `packed_fields` returns it.

    `name` and `description` are empty if absent. `allowed_tools` is None if absent, which allows all tools; an empty
    list allows none.
    """

    written: bytes = b"{}"
    name: str = ""
    description: str = ""
    license: str | None = None
    compatibility: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    version: str | None = None
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    trigger: bool = False
    hint: str | None = None
    gates: tuple[Gate, ...] = ()
    evaluation: Evaluation | None = None
    skill_key: str | None = None
    always: bool = False
    primary_env: str | None = None
    triggers: tuple[str, ...] = ()
    tools: tuple[ToolDeclaration, ...] = ()
    danger_patterns: tuple[str, ...] = ()
    confirm_patterns: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    disable_model_invocation: bool = False
    user_invocable: bool = True
    argument_hint: str | None = None
    when_to_use: str | None = None
    model_invocable: bool = field(init=False)
    """Whether a model may see and activate the skill by itself."""
    always_on: bool = field(init=False)
    """Whether the skill applies to every message: `metadata.jdai.always`, or the trigger `*`."""

    def __post_init__(self) -> None:
        # Computed once: listing the tools reads both for each of thousands of skills.
        object.__setattr__(self, "model_invocable", not (self.disable_model_invocation or self.trigger))
        # In the capability format, `*` makes only skills without tools apply to every message.
        object.__setattr__(self, "always_on", self.always or ("*" in self.triggers and not self.tools))

    @property
    def raw(self) -> dict[str, JsonValue]:
        """The whole mapping as written, made anew each time: it is read for few skills at once, and takes .5 KB."""
        fields: dict[str, JsonValue] = json.loads(self.written)
        for key, value in (("name", self.name), ("description", self.description)):
            if value and fields.get(key, value) is None:
                fields[key] = value
        return fields

    @property
    def metadata(self) -> Mapping[str, JsonValue]:
        """The field `metadata`, empty if it is not a mapping."""
        return FieldReader(self.raw, {}, "").within("metadata").fields


def packed_fields(fields: Mapping[str, JsonValue], name: str, description: str) -> bytes:
    """Return the fields of a frontmatter as JSON, with null for a name and a description that are as typed."""
    kept = {"name": name, "description": description}
    left = {key: None if value and value == kept.get(key) else value for key, value in fields.items()}
    return _encode(left).encode("utf-8", "surrogatepass")


# `json.dumps` would make an encoder each time.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


_KNOWN_FIELDS = (
    {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    | {"version", "tags", "references", "trigger", "hint"}
    | {"when", "evaluation"}
    | {"triggers", "tools", "danger_patterns", "confirm_patterns", "requires"}
    | {"disable-model-invocation", "user-invocable", "argument-hint", "when_to_use"}
    | _FOREIGN_FIELDS
)


def parse_frontmatter(document: Document, folder: str | None, path: str) -> tuple[Frontmatter, tuple[Diagnostic, ...]]:
    """Type the fields of `document`; `folder` is the name of the skill's folder, None if it has none.

    The diagnostics, sorted by line, name the file as `path`. An error makes the skill invalid; a warning does so only
    in a strict source.
    """
    reader = FieldReader(document.fields, document.lines, path)
    front = _read(reader, document)
    _check_name(front.name, folder, reader)
    _check_texts(front, reader)
    found = _with_nested_lines(reader, document) if reader.nested else reader.found
    return front, capped(sorted(dict.fromkeys(found), key=lambda diagnostic: diagnostic.line or 0))


def unknown_fields(fields: Iterable[str]) -> tuple[str, ...]:
    """Return the top-level fields that are not known."""
    return tuple(key for key in fields if key not in _KNOWN_FIELDS)


def similar_fields(key: str) -> tuple[str, ...]:
    """Return up to two known fields similar to `key`, the most similar first."""
    import difflib  # noqa: PLC0415 - few fields are misspelt; at the top, every start would pay for it

    return tuple(difflib.get_close_matches(key[:100], _KNOWN_FIELDS, n=2))


def written_length(fields: Mapping[str, JsonValue], key: str) -> int:
    """Return the length of a field as hosts count it, including surrounding whitespace."""
    return len(str(fields.get(key) or ""))


def unquoted_fields(document: Document) -> tuple[str, ...]:
    """Return the paths of fields (`metadata.jdai.skillKey`, `tools[0].name`) that quotes would make strings."""
    reader = FieldReader(document.fields, {}, "")
    _read(reader, document)
    return tuple(reader.unquoted)


def is_folder_name(name: str) -> bool:
    """Tell whether the name of a folder is valid as the name of its skill."""
    return 0 < name_length(name) <= NAME_LIMIT and name_fault(name) is None


def name_length(name: str) -> int:
    """Return the length of a name after NFKC normalisation, as the reference validator counts it."""
    return len(unicodedata.normalize("NFKC", name))


def name_fault(name: str) -> str | None:
    """Return the naming rule of agentskills.io that `name` breaks, None if it breaks none.

    As in the reference validator, lower-case letters of every script are allowed, after NFKC normalisation.
    """
    name = unicodedata.normalize("NFKC", name)
    if name != name.lower():
        return "must be lower case"
    others = name.replace("-", "")
    if others and not others.isalnum():
        return "may contain only letters, digits and hyphens"
    if name.startswith("-") or name.endswith("-"):
        return "must not begin or end with a hyphen"
    if "--" in name:
        return "must not contain two hyphens in a row"
    return None


def name_from(text: str) -> str:
    """Return the valid name nearest to `text`: its ASCII letters and digits in lower case; empty if it has none."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:NAME_LIMIT].rstrip("-")


def _read(reader: FieldReader, document: Document) -> Frontmatter:
    fields = reader.fields
    metadata = read_metadata(reader, document)
    requires, gate_of_requires = read_requires(reader, document)
    gates = (read_gate(reader, document), metadata.gate, gate_of_requires, _check_unknown(reader))
    name, description = reader.text("name") or "", reader.text("description") or ""
    return Frontmatter(
        written=packed_fields(fields, name, description),
        name=name,
        description=description,
        license=reader.text("license"),
        compatibility=reader.text("compatibility"),
        allowed_tools=reader.tools("allowed-tools"),
        version=_read_version(reader, metadata.fields),
        tags=reader.texts("tags"),
        references=reader.texts("references"),
        trigger=_read_trigger(reader),
        hint=reader.text("hint"),
        gates=tuple(gate for gate in gates if gate is not OPEN and gate != OPEN),
        evaluation=_read_evaluation(reader.within("evaluation")) if "evaluation" in fields else None,
        skill_key=metadata.skill_key,
        always=metadata.always,
        primary_env=metadata.primary_env,
        triggers=reader.texts("triggers"),
        tools=_read_tools(reader),
        danger_patterns=reader.patterns("danger_patterns"),
        confirm_patterns=reader.patterns("confirm_patterns"),
        requires=requires,
        # Any value counts as true, so that a skill meant to be withheld is: in YAML 1.2 `yes` and `on` are strings.
        disable_model_invocation=reader.flag("disable-model-invocation", unclear=True),
        user_invocable=reader.flag("user-invocable", default=True),
        argument_hint=reader.text("argument-hint"),
        when_to_use=reader.text("when_to_use"),
    )


def _read_version(reader: FieldReader, metadata: Mapping[str, JsonValue]) -> str | None:
    """Return the version in `version`, else that in `metadata`, which is free and so not checked."""
    version = reader.text("version")
    if version is None:
        other = metadata.get("version")
        is_text = isinstance(other, str | int | float) and not isinstance(other, bool)
        return str(other).strip() or None if is_text else None
    if version_precedence(version) is None:
        message = f"version {version[:_SHOWN]!r} is not a semantic version, which has three numbers as in 1.4.0"
        reader.add(Severity.INFO, Reason.INVALID_VERSION, message, "version")
    return version or None


def _read_trigger(reader: FieldReader) -> bool:
    """Return the flag; other ways to write true count as true, so that a skill meant to be withheld is.

    Any other text is not a flag: in public skills it says when to use the skill.
    """
    says_yes = str(reader.fields.get("trigger")).strip().lower() in _YES
    return reader.flag("trigger", unclear=True if says_yes else None)


def _read_evaluation(reader: FieldReader) -> Evaluation:
    reader.check_keys(_EVALUATION_FIELDS)
    return Evaluation(
        enabled=reader.flag("enabled"),
        min_score=reader.number("minScore", 0.7, low=0, high=1),
        max_retries=int(reader.number("maxRetries", 2, low=0, high=10)),
        criteria=reader.texts("criteria"),
        allow_side_effects=reader.flag("allowSideEffects"),
    )


def _read_tools(reader: FieldReader) -> tuple[ToolDeclaration, ...]:
    tools: list[ToolDeclaration] = []
    for tool in reader.items("tools"):
        tool.check_keys(_TOOL_FIELDS)
        name = tool.text("name")
        if not name:
            reader.add(
                Severity.WARNING,
                Reason.INVALID_FIELD,
                f"{tool.prefix}name is missing; the tool is ignored",
                "tools",
            )
            continue
        script = (tool.text("script") or "").removeprefix("./") or None
        if script is None:
            message = f"{tool.prefix}script is missing, so the skill declares the tool but cannot run it"
            reader.add(Severity.INFO, Reason.TOOL_WITHOUT_SCRIPT, message, "tools")
        description, parameters = tool.text("description") or "", tool.mapping("parameters")
        _check_tool(tool, description, parameters)
        tools.append(ToolDeclaration(name, description, parameters, script))
    return tuple(tools)


def _check_tool(tool: FieldReader, description: str, parameters: Mapping[str, JsonValue]) -> None:
    """Diagnose what a model needs to call a tool and the declaration lacks."""
    if not description:
        message = f"{tool.prefix}description is missing, so models learn only the tool's name"
        tool.add(Severity.WARNING, Reason.INVALID_FIELD, message, "description")
    if tool.fields.get("parameters") is None:
        message = f"{tool.prefix}parameters is missing, so models can pass no arguments"
        tool.add(Severity.WARNING, Reason.INVALID_FIELD, message, "parameters")
    elif parameters.get("type", "object") != "object":
        message = f"{tool.prefix}parameters.type must be 'object', so the tool cannot be called"
        tool.add(Severity.WARNING, Reason.INVALID_FIELD, message, "parameters")


def _with_nested_lines(reader: FieldReader, document: Document) -> list[Diagnostic]:
    """Return what was found, with the lines of nested fields; reading them is slow, so only faults pay for it."""
    lines = read_lines(document.yaml.removeprefix("\ufeff"))
    found = list(reader.found)
    for position, path in reader.nested.items():
        if path in lines:
            found[position] = replace(found[position], line=lines[path] + 1)
    return found


def _check_name(name: str, folder: str | None, reader: FieldReader) -> None:
    if not name:
        message = f"name is missing; expected {folder!r}, the name of its folder" if folder else "name is missing"
        reader.add(Severity.WARNING, Reason.MISSING_NAME, message, "name")
        return
    length = name_length(name)
    if length > NAME_LIMIT:
        message = f"name has {length} characters; the limit is {NAME_LIMIT}"
        reader.add(Severity.WARNING, Reason.NAME_TOO_LONG, message, "name")
    fault = name_fault(name)
    if fault is not None:
        reader.add(Severity.WARNING, Reason.INVALID_NAME, f"name {name[:NAME_LIMIT]!r} {fault}", "name")
    if folder is not None and unicodedata.normalize("NFKC", name) != unicodedata.normalize("NFKC", folder):
        message = f"name {name[:NAME_LIMIT]!r} should equal the name of its folder, {folder!r}"
        reader.add(Severity.WARNING, Reason.NAME_MISMATCH, message, "name")


def _check_texts(front: Frontmatter, reader: FieldReader) -> None:
    if not front.description:
        message = "description is missing or empty"
        reader.add(Severity.ERROR, Reason.MISSING_DESCRIPTION, message, "description")
    length = written_length(reader.fields, "description")
    if length > DESCRIPTION_LIMIT:
        message = f"description has {length} characters; the limit is {DESCRIPTION_LIMIT}"
        reader.add(Severity.WARNING, Reason.DESCRIPTION_TOO_LONG, message, "description")
    length = written_length(reader.fields, "compatibility") if front.compatibility else 0
    if front.compatibility is not None and not 1 <= length <= COMPATIBILITY_LIMIT:
        message = f"compatibility has {length} characters; from 1 to {COMPATIBILITY_LIMIT} are allowed"
        reader.add(Severity.WARNING, Reason.COMPATIBILITY_TOO_LONG, message, "compatibility")


def _check_unknown(reader: FieldReader) -> Gate:
    """Diagnose unknown fields; return the gate that those close which state conditions."""
    unknown = unknown_fields(reader.fields)
    gate, strays = read_stray_conditions(reader, unknown)
    for number, key in enumerate(each for each in unknown if each not in strays):
        # Finding similar fields is slow, and faults beyond the limit are only counted.
        hint = did_you_mean(similar_fields(key)[:1], "; did") if number < MAX_PER_REASON else ""
        reader.add(Severity.WARNING, Reason.UNKNOWN_FIELD, f"unknown field {key[:100]!r}{hint}", key)
    return gate
