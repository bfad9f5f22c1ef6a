"""What is written to the database, and read from it: JSON, and of an error nothing but its type."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from dbos import Serializer

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue
    from skills_core.run.ports import JsonObject

__all__ = ["JobFailedError", "JsonSerializer", "round_trip", "round_trip_object"]

_VALUE: Final = "value"
_ERROR: Final = "error"


class JobFailedError(Exception):
    """A job raised an error of the type `problem`. What the error said is told nowhere: it may hold a secret."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def round_trip(value: object) -> JsonValue:
    """Return a value as it comes back from a record, so that a first time and a repetition are the same.

    Raises:
        TypeError, ValueError: it is no JSON.
    """
    result: JsonValue = json.loads(_encode(value))
    return result


def round_trip_object(value: object) -> JsonObject:
    """Return an object as it comes back from a record.

    Raises:
        TypeError, ValueError: it is no JSON object.
    """
    result = round_trip(value)
    if not isinstance(result, dict):
        raise TypeError("the input and the outcome of a job are JSON objects")
    return result


def _encode(value: object) -> str:
    # Escapes keep out what PostgreSQL and UTF-8 cannot hold: the character zero and halves of surrogate pairs.
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class JsonSerializer(Serializer):
    """JSON with one level around it that tells values from errors."""

    def name(self) -> str:
        """Return the name that stands beside each record."""
        return "skillserve_json"

    def serialize(self, data: Any) -> str:  # noqa: ANN401 - dbos hands over what it has
        """Write a value, or the type of an error."""
        if isinstance(data, JobFailedError):
            return _encode({_ERROR: data.problem})
        if isinstance(data, BaseException):
            return _encode({_ERROR: type(data).__name__})
        return _encode({_VALUE: data})

    def deserialize(self, serialized_data: str) -> Any:  # noqa: ANN401 - see serialize
        """Read a value, or an error that says nothing but its type."""
        record = json.loads(serialized_data)
        if not isinstance(record, dict) or record.keys() not in ({_VALUE}, {_ERROR}):
            raise ValueError("this is no record of ours")
        return record[_VALUE] if _VALUE in record else JobFailedError(str(record[_ERROR])[:200])
