"""The serializer for the database: values as JSON, and errors as nothing but their type."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from dbos import Serializer

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject, JsonValue

__all__ = ["JobFailedError", "JsonSerializer", "round_trip", "round_trip_object"]

_VALUE: Final = "value"
_ERROR: Final = "error"


class JobFailedError(Exception):
    """A job raised an error of the type `problem`. The error's text is dropped: it may contain a secret."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def round_trip(value: object) -> JsonValue:
    """Return a value as it reads back from a record, so that a first execution and a replay get the same value.

    Raises:
        TypeError, ValueError: the value is not JSON.
    """
    result: JsonValue = json.loads(_encode(value))
    return result


def round_trip_object(value: object) -> JsonObject:
    """Return an object as it reads back from a record.

    Raises:
        TypeError, ValueError: the value is not a JSON object.
    """
    result = round_trip(value)
    if not isinstance(result, dict):
        raise TypeError("the input and the outcome of a job are JSON objects")
    return result


def _encode(value: object) -> str:
    # ASCII escapes, because PostgreSQL and UTF-8 cannot hold the character zero and lone surrogates.
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class JsonSerializer(Serializer):
    """JSON in an envelope that distinguishes values from errors."""

    def name(self) -> str:
        """Return the serializer name stored with each record."""
        return "skillserve_json"

    def serialize(self, data: Any) -> str:  # noqa: ANN401 - dbos hands over what it has
        """Write a value, or the type of an error."""
        if isinstance(data, JobFailedError):
            return _encode({_ERROR: data.problem})
        if isinstance(data, BaseException):
            return _encode({_ERROR: type(data).__name__})
        return _encode({_VALUE: data})

    def deserialize(self, serialized_data: str) -> Any:  # noqa: ANN401 - see serialize
        """Read a value, or an error with nothing but its type."""
        record = json.loads(serialized_data)
        if not isinstance(record, dict) or record.keys() not in ({_VALUE}, {_ERROR}):
            raise ValueError("the record was not written by skillserve")
        return record[_VALUE] if _VALUE in record else JobFailedError(str(record[_ERROR])[:200])
