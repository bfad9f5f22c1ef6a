"""Read typed values from untyped frontmatter, and diagnose wrong types.

A wrong type never raises: the field takes its default, and a diagnostic names the field, its line and the expected
type. `frontmatter` defines the fields; this module only knows types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from skills_core.diagnostics import MAX_PER_REASON, Diagnostic, Reason, Severity
from skills_core.errors import did_you_mean
from skills_core.format.yaml12 import YamlError, load_mapping
from skills_core.sharing import shared
from skills_core.texts import MAX_PATTERNS, decoded_part, pattern_fault

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue


_SHOWN = 60
# Characters of a pattern that a message quotes.

_MAX_KEY = 100
# Characters of an unknown key that a message shows.

_ABBREVIATION = 3
# From this length on, the beginning of a known key counts as an abbreviation of it.

_LONG = 1e9
# From this number on, messages do not show all digits.


@dataclass(slots=True)
class FieldReader:
    """Reads the fields of one mapping; `prefix` is the path of the mapping in the frontmatter, as in `when.`.

    `found` collects diagnostics; `nested` maps positions in it to the paths of the nested fields that they concern, and
    `unquoted` collects the paths of fields that quotes would make strings. In a mapping of conditions, `unreadable`
    collects what is wrong with those that cannot be read; it is None in every other mapping.
    """

    fields: Mapping[str, JsonValue]
    lines: Mapping[str, int]
    path: str
    prefix: str = ""
    line: int | None = None
    found: list[Diagnostic] = field(default_factory=list)
    unquoted: list[str] = field(default_factory=list)
    nested: dict[int, str] = field(default_factory=dict)
    unreadable: list[str] | None = None

    def add(self, severity: Severity, code: Reason, message: str, key: str | None = None) -> None:
        """Record a diagnostic about `key`, with its line if known."""
        line = self.lines.get(key, self.line) if key is not None else self.line
        if self.prefix and key is not None:
            self.nested[len(self.found)] = self.prefix + key
        self.found.append(Diagnostic(severity, code, message, self.path, line))

    def _report_type(self, key: str, expected: str, got: str | None = None, then: str = "the field is ignored") -> None:
        shown = {bool: "true or false", dict: "a mapping", list: "a list", str: "a string"}
        value = self.fields[key]
        fault = f"{self.prefix}{key!s} must be {expected}, not {got or shown.get(type(value), 'a number')}"
        if self.unreadable is not None and not _is_blank(value):
            self.unreadable.append(fault)
            then = "the skill is excluded"
        self.add(Severity.WARNING, Reason.INVALID_FIELD, f"{fault}; {then}", key)

    def check_keys(self, known: frozenset[str], severity: Severity = Severity.WARNING) -> None:
        """Diagnose unknown fields; an unknown condition cannot be read, unless the diagnostic is an info."""
        if self.fields.keys() <= known:
            return
        for key in (key for key in self.fields if key not in known):
            # Finding similar fields is slow, and faults beyond the limit are only counted.
            hint = _hint(key, known) if len(self.nested) < MAX_PER_REASON else ""
            self._report_key(key, hint, severity)

    def check_meant(self, meant: Mapping[str, str]) -> None:
        """Diagnose unknown fields that mean known ones: unknown keys, with those that they mean."""
        for key, known in meant.items():
            self._report_key(key, did_you_mean([known], "; did"), Severity.WARNING)

    def _report_key(self, key: str, hint: str, severity: Severity) -> None:
        fault, then = f"unknown field {self.prefix + key[:_MAX_KEY]!r}", ""
        if self.unreadable is not None and severity is not Severity.INFO:
            self.unreadable.append(f"{fault}{hint}")
            then = ", so the skill is excluded"
        self.add(severity, Reason.UNKNOWN_FIELD, f"{fault}{then}{hint}", key)

    def without(self, keys: Mapping[str, str]) -> FieldReader:
        """Return a reader of the same mapping without some keys."""
        if not keys:
            return self
        return self._inner(
            {key: value for key, value in self.fields.items() if key not in keys}, self.prefix, self.line
        )

    def text(self, key: str) -> str | None:
        """Return a string; numbers and booleans are converted, because `version: 1.0` is common."""
        value = self.fields.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            return value.strip()
        if isinstance(value, bool | int | float):
            self.add(Severity.WARNING, Reason.INVALID_FIELD, f"{self.prefix}{key} should be a quoted string", key)
            self.unquoted.append(f"{self.prefix}{key}")
            return str(value).lower() if isinstance(value, bool) else str(value)
        self._report_type(key, "a string")
        return None

    def flag(self, key: str, *, default: bool = False, unclear: bool | None = None) -> bool:
        """Return a boolean; the strings "true" and "false" are accepted.

        Any other value yields `unclear`, or the default if that is None.
        """
        value = self.fields.get(key)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
            return value.strip().lower() == "true"
        if unclear is None:
            self._report_type(key, "true or false")
            return default
        self._report_type(key, "true or false", then=f"it is treated as {str(unclear).lower()}")
        return unclear

    def number(self, key: str, default: float, *, low: float, high: float) -> float:
        """Return a number from `low` to `high`, inclusive."""
        value = self.fields.get(key)
        if value is None:
            return default
        got = None
        if isinstance(value, int | float) and not isinstance(value, bool):
            if low <= value <= high:
                return float(value)
            got = str(value) if abs(value) < _LONG else f"{value:g}"
        self._report_type(key, f"a number from {low:g} to {high:g}", got)
        return default

    def texts(self, key: str, *, split: bool = True) -> tuple[str, ...]:
        """Return a list of strings; a single string is a list of one, or is split at commas if `split`."""
        value = self.fields.get(key)
        if value is None:
            return ()
        if isinstance(value, str):
            parts = value.split(",") if split else [value]
            return tuple(part.strip() for part in parts if part.strip())
        if isinstance(value, list) and not any(isinstance(item, dict | list) or item is None for item in value):
            texts = (str(item).lower() if isinstance(item, bool) else str(item).strip() for item in value)
            return tuple(text for text in texts if text)
        self._report_type(key, "a list of strings")
        return ()

    def patterns(self, key: str) -> tuple[str, ...]:
        """Return guard patterns, verbatim; a single string is a list of one.

        An unusable pattern is an error, because its author relies on it.
        """
        value = self.fields.get(key)
        if value is None:
            return ()
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(item, str) and item for item in listed):
            self._report_pattern(key, "must be a list of non-empty strings")
            return ()
        found = tuple(str(item) for item in listed)
        if len(found) > MAX_PATTERNS:
            self._report_pattern(key, f"has {len(found)} patterns; at most {MAX_PATTERNS} are allowed")
            return ()
        for pattern in found:
            if fault := pattern_fault(pattern):
                self._report_pattern(key, fault)
            elif part := decoded_part(pattern):
                message = (
                    f"{self.prefix}{key}: {pattern[:_SHOWN]!r} contains {part!r}, but JSON text has tabs and line ends "
                    "only as escapes; skillserve also matches the pattern against decoded values, other hosts may not"
                )
                self.add(Severity.WARNING, Reason.DECODED_PATTERN, message, key)
        return found

    def _report_pattern(self, key: str, why: str) -> None:
        self.add(Severity.ERROR, Reason.INVALID_PATTERN, f"{self.prefix}{key}: {why}", key)

    def mapping(self, key: str) -> Mapping[str, JsonValue]:
        """Return a mapping, empty if the field is absent; JSON in a string is accepted."""
        value = self.fields.get(key)
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        inner = _object_in(value) if isinstance(value, str) else None
        if inner is not None:
            self.add(Severity.WARNING, Reason.INVALID_FIELD, f"{self.prefix}{key} should be a mapping, not text", key)
            return inner
        self._report_type(key, "a mapping")
        return {}

    def _mappings(self, key: str) -> tuple[Mapping[str, JsonValue], ...]:
        """Return a list of mappings."""
        value = self.fields.get(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return tuple(cast("list[dict[str, JsonValue]]", value))
        self._report_type(key, "a list of mappings")
        return ()

    def tools(self, key: str) -> tuple[str, ...] | None:
        """Return a list of tool patterns; None if the field is absent, which means "every tool".

        Invalid items are left out, so that a mistake never allows more tools than intended.
        """
        value = self.fields.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            return _split_tools(value)
        if not isinstance(value, list):
            self._report_type(key, "a list of strings, or one string")
            return ()
        if not all(isinstance(item, str) for item in value):
            message = f"{self.prefix}{key} must hold strings only; its other items are ignored"
            self.add(Severity.WARNING, Reason.INVALID_FIELD, message, key)
        return tuple(item.strip() for item in value if isinstance(item, str) and item.strip())

    def within(self, key: str) -> FieldReader:
        """Return a reader for the mapping at `key`; it collects in the same places."""
        return self._inner(self.mapping(key), f"{self.prefix}{key}.", self.lines.get(key, self.line))

    def items(self, key: str) -> tuple[FieldReader, ...]:
        """Return a reader for each mapping in the list at `key`; they collect in the same places."""
        line = self.lines.get(key, self.line)
        return tuple(
            self._inner(item, f"{self.prefix}{key}[{number}].", line) for number, item in enumerate(self._mappings(key))
        )

    def gating(self, unreadable: list[str] | None) -> FieldReader:
        """Return a reader of the same mapping that collects conditions that cannot be read in `unreadable`."""
        reader = self._inner(self.fields, self.prefix, self.line)
        reader.lines, reader.unreadable = self.lines, unreadable
        return reader

    def _inner(self, fields: Mapping[str, JsonValue], prefix: str, line: int | None) -> FieldReader:
        # `dataclasses.replace` takes several times as long, and every skill needs some readers.
        return FieldReader(fields, {}, self.path, prefix, line, self.found, self.unquoted, self.nested, self.unreadable)


def _is_blank(value: JsonValue) -> bool:
    """Tell whether a value states nothing: an empty text, list or mapping."""
    return not value.strip() if isinstance(value, str) else value in ([], {})


def _hint(key: str, known: frozenset[str]) -> str:
    """Return the end of a message about an unknown key: the known one that was meant, or all of them."""
    import difflib  # noqa: PLC0415 - few keys are wrong; at the top, every start would pay for it

    written = key[:_MAX_KEY].casefold()
    by_spelling = {name.casefold(): name for name in sorted(known)}
    similar = difflib.get_close_matches(written, by_spelling, n=1) or [
        name for name in by_spelling if len(written) >= _ABBREVIATION and name.startswith(written)
    ]
    meant = [by_spelling[name] for name in similar[:1]]
    return did_you_mean(meant, "; did") or f"; known are {', '.join(by_spelling.values())}"


def _object_in(text: str) -> Mapping[str, JsonValue] | None:
    """Return the JSON object in a string, parsed as YAML, which includes JSON, within the bounds of that parser.

    A text is not an object if a part of it would be lost, as with a repeated key.
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        mapping = load_mapping(text.strip())
    except YamlError:
        return None
    return None if mapping.notes else mapping.value


def _split_tools(text: str) -> tuple[str, ...]:
    """Split at whitespace and commas outside parentheses, as in `Bash(git log:*), Read`, in one pass."""
    if "(" not in text:
        return shared(tuple(map(shared, text.replace(",", " ").split())))
    tools: list[str] = []
    start = depth = 0
    for position, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth = max(depth - 1, 0)
        elif depth == 0 and (char == "," or char.isspace()):
            tools.append(text[start:position])
            start = position + 1
    tools.append(text[start:])
    return shared(tuple(shared(tool) for tool in tools if tool))
