"""The journal of a run, which records its finished steps, and the encoding of recorded values as JSON.

A restarted run repeats no finished step. A recorded value is a dataclass; its fields are strings, numbers, booleans,
string enums, other values, tuples of these, mappings from strings to JSON, or None if the type allows it. Decoding
requires every field, and never fills in a default.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from skills_core.errors import InvalidRecordError

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Epoch:
    """The fencing token of a worker that performs a recorded run.

    `recorded` is the time when the run was recorded, in milliseconds since 1970, and distinguishes it from other runs
    with its id; `attempt` counts how often the run was started. No attempt may replace what a higher one wrote.
    """

    recorded: int
    attempt: int


class Journal(Protocol):
    """The record of one run's finished steps, so that a restarted run repeats none of them.

    `run_id` identifies the run, and stays the same when it is restarted.
    """

    @property
    def run_id(self) -> str:
        """The run's id, unique among all runs."""

    @property
    def interrupted(self) -> bool:
        """Whether the run was cancelled here only to be continued later, by this process or another one."""

    @property
    def fenced(self) -> bool:
        """Whether another worker may perform the run, so that this one must write nothing more for it."""

    @property
    def epoch(self) -> Epoch | None:
        """The fencing token for files of the run, None if no other worker can take it over."""

    async def ensure_owned(self) -> None:
        """Return if this worker still owns the run; otherwise cancel the job."""

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Return the result of `work`: executed now, or read back if this step was finished earlier.

        A run takes the same steps in the same order each time it is started with the same input, so a step is known by
        its number; `name` is for people. Work that raises is not finished: the run may still produce its outcome, but
        takes no further step, because in a replay the same work may succeed. If a process ends in the middle of a step,
        the step is repeated: its side effects need an idempotency key made of run and step.
        """


async def timed_step(
    journal: Journal, name: str, work: Callable[[], Awaitable[JsonObject]], on_repeated: Callable[[float], None]
) -> JsonObject:
    """Take a step whose result says in `seconds` how long it took; `on_repeated` gets them if it was finished earlier.

    So a run that another process continues has the time that is left of its limit, and not all of it once more.
    """
    is_new = False

    async def noted() -> JsonValue:
        nonlocal is_new
        is_new = True
        begun = time.monotonic()
        result = await work()
        return {"seconds": round(time.monotonic() - begun, 3), **result}

    recorded = await journal.step(name, noted)
    assert isinstance(recorded, dict)  # noqa: S101 - as `noted` makes it
    # Earlier versions recorded it of requests alone.
    seconds = recorded.get("seconds", 0.0)
    if not is_new and isinstance(seconds, (int, float)):
        on_repeated(seconds)
    return recorded


class MemoryJournal:
    """A journal without a record: every step is executed, and no other process can continue the run."""

    interrupted = False
    fenced = False
    epoch: Epoch | None = None

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id

    async def ensure_owned(self) -> None:
        """Do nothing: this worker always owns the run."""

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Execute the work."""
        del name
        return await work()


_T = TypeVar("_T")

_TYPE_CHECKING_NAMES = {"Mapping": Mapping, "JsonValue": object}
"""Names in annotations that modules import only for type checkers."""


def to_json(value: object) -> JsonObject:
    """Encode a value as a JSON object with all of its fields."""
    return cast("JsonObject", _encode(value))


def from_json(kind: type[_T], record: JsonValue) -> _T:
    """Decode a value of type `kind` that `to_json` encoded.

    Raises:
        InvalidRecordError: a field is missing, unknown or of another type.
    """
    return cast("_T", _decode(kind, record, kind.__name__))


def _encode(value: object) -> object:
    if is_dataclass(value):
        return {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


@cache
def _types_of(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, localns=_TYPE_CHECKING_NAMES)


def _decode(kind: Any, record: object, where: str) -> object:  # noqa: ANN401 - any annotation
    origin = get_origin(kind)
    if origin in {UnionType, Union}:
        return _decode_union(get_args(kind), record, where)
    if origin is tuple:
        items = _require_type(list, record, where)
        return tuple(_decode(get_args(kind)[0], item, f"{where}[{number}]") for number, item in enumerate(items))
    if origin is Mapping:
        value_type = get_args(kind)[1]
        entries = _require_type(dict, record, where).items()
        return {_require_type(str, key, where): _decode(value_type, item, f"{where}.{key}") for key, item in entries}
    return record if kind is object else _decode_plain(kind, record, where)


def _decode_plain(kind: type, record: object, where: str) -> object:
    if is_dataclass(kind):
        return _decode_fields(kind, _require_type(dict, record, where), where)
    if issubclass(kind, Enum):
        return _decode_member(kind, record, where)
    if kind is float and type(record) is int:
        return float(record)  # other JSON writers omit the fraction of a whole number
    return _require_type(kind, record, where)


def _decode_union(kinds: tuple[Any, ...], record: object, where: str) -> object:
    if record is None and NoneType in kinds:
        return None
    (kind,) = (each for each in kinds if each is not NoneType)
    return _decode(kind, record, where)


def _decode_fields(kind: type, record: dict[str, object], where: str) -> object:
    types = _types_of(kind)
    names = {field.name for field in fields(kind)}
    if record.keys() != names:
        odd = ", ".join(sorted(map(str, record.keys() ^ names)))
        raise InvalidRecordError(where, f"missing or unknown: {odd[:200]}")
    return kind(**{name: _decode(types[name], record[name], f"{where}.{name}") for name in names})


def _decode_member(kind: type[Enum], record: object, where: str) -> Enum:
    try:
        return kind(record)
    except ValueError:
        raise InvalidRecordError(where, f"{str(record)[:60]!r} is not one of its values") from None


def _require_type(kind: type[_T], record: object, where: str) -> _T:
    if type(record) is not kind:
        raise InvalidRecordError(where, f"expected {kind.__name__}, not {type(record).__name__}")
    return record
