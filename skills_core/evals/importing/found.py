"""What an import makes: cases, trigger queries, input files, and the list of what could not be carried over."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from skills_core.diagnostics import one_line

MAX_CASES: Final = 1000
MAX_FILES: Final = 1000
MAX_BYTES: Final = 64 * 1024 * 1024
"""Most cases, and most input files with their bytes, of one import."""

_MAX_TEXT: Final = 100_000
_MAX_QUERY: Final = 10_000


@dataclass(slots=True)
class ForeignCase:
    """A case of another tool. `place` names it in messages; `files` are input files by their path in the workspace."""

    place: str
    prompt: str
    name: str = ""
    expected: str = ""
    assertions: list[str | dict[str, Any]] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    def judged(self, text: object, *, denied: bool = False) -> None:
        """Add a statement for the judge, which must hold, or must not."""
        listed: list[Any] = self.absent if denied else self.assertions
        if isinstance(text, str) and text.strip() and len(text) <= _MAX_TEXT and text not in listed:
            listed.append(text)

    def checked(self, check: dict[str, str]) -> None:
        """Add an assertion with a command."""
        if check not in self.assertions:
            self.assertions.append(check)


@dataclass(slots=True)
class Found:
    """What an import has found so far for a skill; `skill` is its name, and `form` that of the other tool."""

    skill: str
    form: str = ""
    cases: list[ForeignCase] = field(default_factory=list)
    queries: dict[str, dict[str, Any]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    _lost: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing could be carried over."""
        return not self.cases and not self.queries

    def lose(self, what: str, place: str) -> None:
        """Note that something at a place cannot be carried over."""
        self._lost.setdefault(one_line(what), []).append(one_line(place))

    def remark(self, text: str) -> None:
        """Note what differs from the other tool."""
        if text not in self.remarks:
            self.remarks.append(text)

    def lost(self) -> Iterator[str]:
        """Yield a line for each thing that could not be carried over."""
        for what, places in self._lost.items():
            times = f" and {len(places) - 1} more" if len(places) > 1 else ""
            yield f"{what}: {places[0]}{times}"

    def add(self, case: ForeignCase) -> None:
        """Add a case, unless it cannot be run or graded."""
        if not case.prompt.strip() or len(case.prompt) > _MAX_TEXT or "\0" in case.prompt:
            self.lose(f"cases without a prompt of 1 to {_MAX_TEXT:,} characters", case.place)
        elif not (case.assertions or case.absent or case.expected.strip()):
            self.lose("cases of which no assertion is left", case.place)
        elif any(
            f"{above}/".startswith(f"{path}/") for above in map(posixpath.dirname, case.files) for path in case.files
        ):
            self.lose("cases with input files that are folders too", case.place)
        elif len(self.cases) >= MAX_CASES:
            self.lose(f"cases beyond the first {MAX_CASES}", case.place)
        else:
            self.cases.append(case)

    def query(self, text: str, place: str, *, should_trigger: bool, instead: str | None = None) -> None:
        """Add a trigger query; `instead` is the skill that it needs, if it should not trigger."""
        text = text.strip()
        if not text or len(text) > _MAX_QUERY:
            self.lose(f"queries without 1 to {_MAX_QUERY:,} characters", place)
            return
        entry: dict[str, Any] = {"query": text, "should_trigger": should_trigger}
        if instead and not should_trigger:
            entry["expected_skill"] = instead
        known = self.queries.setdefault(" ".join(text.split()).casefold(), entry)
        if known["should_trigger"] is not should_trigger:
            self.lose("queries that should trigger in one place and not in another", place)
