"""What an eval or a trigger test will take, as a table of 80 columns: runs, requests, tokens, dollars and time.

What earlier runs have measured counts. Without any, tokens and dollars are the least that is certain: what is sent
once, at four characters a token. Time that was never measured is unknown, and nothing is invented.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject

CHARACTERS_A_TOKEN: Final = 4
"""How long a token of English is, about."""

_MINUTE: Final = 60
_HOUR: Final = 3600


def tokens_of(characters: int) -> int:
    """Return how many tokens a text of this length is, about."""
    return -(-characters // CHARACTERS_A_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRow:
    """What one part of the work takes. None is unknown; with `least`, it may be more than these tokens and dollars.

    `seconds` are those of all its runs, one after the other. With `more_requests`, a run makes more of them.
    """

    what: str
    runs: int = 0
    requests: int = 0
    tokens: float | None = None
    dollars: float | None = None
    seconds: float | None = None
    least: bool = False
    more_requests: bool = False

    def to_json(self) -> JsonObject:
        """Return the row as `--json` prints it."""
        return {
            "what": self.what,
            "runs": self.runs,
            "requests": self.requests,
            "tokens": None if self.tokens is None else round(self.tokens),
            "cost_usd": None if self.dollars is None else round(self.dollars, 6),
            "seconds": None if self.seconds is None else round(self.seconds, 1),
            "at_least": self.least,
        }

    def cells(self) -> tuple[str, ...]:
        """Return the cells for people."""
        sign = ">=" if self.least else ""
        tokens = "unknown" if self.tokens is None else f"{sign}{self.tokens:,.0f}"
        dollars = "unknown" if self.dollars is None else f"{sign}${self.dollars:,.{2 if self.dollars >= 1 else 4}f}"
        runs = f"{self.runs:,}" if self.runs else "-"
        requests = f"{'>=' if self.more_requests else ''}{self.requests:,}"
        return (self.what, runs, requests, tokens, dollars, _time(self.seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The rows and their sum, where `jobs` run at once; `basis` says what it rests on, `warnings` what would be wasted.

    With `most`, an early end can make it less.
    """

    rows: Sequence[ForecastRow]
    jobs: int = 1
    most: bool = False
    basis: str = ""
    warnings: Sequence[str] = ()

    @property
    def total(self) -> ForecastRow:
        """The sum of all rows; what is unknown in one is unknown in all, and time is that of `jobs` at once."""
        rows = [each for each in self.rows if each.runs or each.requests]
        seconds = _sum([each.seconds for each in rows])
        return ForecastRow(
            what="at most" if self.most else "total",
            runs=sum(each.runs for each in rows),
            requests=sum(each.requests for each in rows),
            tokens=_sum([each.tokens for each in rows]),
            dollars=_sum([each.dollars for each in rows]),
            seconds=None if seconds is None else seconds / self.jobs,
            least=any(each.least for each in rows),
            more_requests=any(each.more_requests for each in rows),
        )

    def lines(self) -> Iterator[str]:
        """Yield the table, what it rests on, and the warnings."""
        heads = ("", "runs", "requests", "tokens", "dollars", "time")
        cells = [heads, *(each.cells() for each in (*self.rows, self.total))]
        for what, runs, requests, tokens, dollars, time in cells:
            yield f"{what[:22]:<22}{runs:>7}{requests:>10}{tokens:>15}{dollars:>13}{time:>11}".rstrip()
        for text in (*filter(None, [self.basis]), *(f"warning: {each}" for each in self.warnings)):
            # Paths and commands stay whole.
            yield from textwrap.wrap(text, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)

    def to_json(self) -> JsonObject:
        """Return the object that `--json` prints."""
        return {
            "rows": [each.to_json() for each in self.rows],
            "total": self.total.to_json(),
            "at_once": self.jobs,
            "basis": self.basis,
            "warnings": list(self.warnings),
        }


def _sum(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if len(known) == len(values) else None


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"
