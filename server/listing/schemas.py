"""Building blocks for the schemas and annotations of tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skills_core.selection.policy import Band

TEXT: dict[str, Any] = {"type": "string"}
MAX_TAGS = 50
"""Most tags in an argument."""

TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}

NEWS: dict[str, Any] = {**TEXTS, "description": "What has changed in the skills since the last result, if anything."}
"""The field that any result of our own tools may have."""

SCORED: dict[str, Any] = {
    "score": {"type": "number"},
    "relative": {"type": "number", "description": "The score as a share of the best one's."},
    "band": {"type": "string", "enum": [band.value for band in Band]},
    "weak": {"type": "boolean", "description": "Little of the query is in the skill."},
    "why": {
        "type": "object",
        "description": "The words of the query that were found, by field.",
        "additionalProperties": TEXTS,
    },
}
"""The fields that describe how well a skill matches a query."""


UNKNOWN_EFFECTS: dict[str, Any] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""The hints of a tool whose effects are those of a model or a script: the worst is assumed."""


def object_of(**properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that requires these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def list_of(items: dict[str, Any], description: str | None = None) -> dict[str, Any]:
    """Return the schema of a list."""
    schema: dict[str, Any] = {"type": "array", "items": items}
    return {**schema, "description": description} if description else schema


def or_null(schema: dict[str, Any], description: str | None = None) -> dict[str, Any]:
    """Return the schema of a value that may be null."""
    is_plain = schema.keys() == {"type"}
    either: dict[str, Any] = {"type": [schema["type"], "null"]} if is_plain else {"anyOf": [schema, {"type": "null"}]}
    return {**either, "description": description} if description else either


def hints(title: str, *, read_only: bool = True) -> dict[str, Any]:
    """Return the annotations of a tool that is idempotent, destroys nothing, and affects this server only."""
    return {
        "title": title,
        "readOnlyHint": read_only,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }


def with_nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an input schema that says of optional arguments that they may be null: smolagents demands all others."""
    required = schema.get("required", ())
    properties = {
        name: each if name in required or not isinstance(each, dict) else {**each, "nullable": True}
        for name, each in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties} if properties else dict(schema)
