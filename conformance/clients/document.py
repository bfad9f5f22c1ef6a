"""Write docs/reference/clients-measured.md from the kept results: `python -m conformance.clients.document`."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from conformance.clients.all_clients import CLIENTS
from conformance.clients.checks import Column
from conformance.clients.results import kept
from conformance.clients.slash_results import kept as kept_slashes
from conformance.clients.slash_ways import SLASHES, Way
from conformance.processes import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from conformance.clients.checks import Finding
    from conformance.clients.measurement import Measurement
    from conformance.clients.slash_results import Arrival, Typing

__all__ = ["PAGE", "page", "write_page"]

PAGE = REPOSITORY / "docs" / "reference" / "clients-measured.md"

HEAD = """\
# Clients, measured

`make clients` runs real MCP clients against this server and a scripted model, records every request to the model, and
reads each answer below off these recordings. [Conformance](../explanation/conformance.md#real-clients) describes how.
This page is generated from `results.json` and `slash.json` in `conformance/clients`. A version with a day in
parentheses was the newest before that day: `make clients OLD=DAY` measures it.
"""

FIRST = """\
## What a model sees at once

| Column | Question |
|---|---|
| sees of 10, of 100, of 1,000 | How many skills does the first request to the model describe, at full length or \
shortened? |
| named of 10, of 100, of 1,000 | How many names does it carry, the list of allowed values included? |
| tokens of 10, of 100, of 1,000 | How much longer is it than with a server that offers nothing, in characters / 4? |
"""

THEN = """\
## What works

| Column | Question |
|---|---|
| activates | Does an activation bring the body of the skill? |
| finds in 100, in 1,000 | Is a skill that no text of the first request names found by a search, and activated? |
| news: added | Does the model hear of a skill that is added during the conversation, and can it activate it? |
| news: edited | Does a result say that a loaded skill has changed, and does another activation bring the new text? |
| 30 KB body | Does every line of a long skill reach the model: whole, or in parts where each says how to read on? |
"""

SLASH = """\
## Slash commands

`make slash` types a skill's command with two words into each client, twice, and reads off the recordings what reached
the model: whose skill, how many of the words, and whether they filled `$ARGUMENTS` in the text. Where the attempts
differ, both are shown. [Slash commands](activation.md#slash-commands) says how the server meets each client.

| Column | What is typed |
|---|---|
| headless | the command, without a terminal |
| terminal | the command, in a terminal |
| reloaded | the same after `/commands reload`, where there is such a command |
| mention | a mention of the skill's resource, and the words |
| beside-native | `/name` where the client has a skill of its own of this name; in Gemini CLI after `/commands reload` |
"""

SIGHT = tuple(column for column in Column if column.startswith(("sees", "of", "named")))
WORKS = tuple(column for column in Column if column not in SIGHT)
SIZES = (10, 100, 1000)


def page(results: Mapping[str, Measurement], slashes: Mapping[str, Typing]) -> str:
    """Return the page."""
    shown = [each for name in CLIENTS for each in _of_client(name, results.values())]
    reasons = ["## Reasons and conditions", "", *_reasons(shown)]
    tables = [HEAD, FIRST, *_sight(shown), "", THEN, *_works(shown), "", SLASH, *_slashes(slashes), ""]
    return "\n".join([*tables, *reasons]).rstrip() + "\n"


def write_page() -> None:
    """Write the page from the kept results."""
    PAGE.write_text(page(kept(), kept_slashes()), encoding="utf-8")


def _of_client(name: str, measurements: Iterable[Measurement]) -> list[Measurement]:
    """Return the measurements of a client, the newest version first."""
    found = [each for each in measurements if each.client == name]
    return sorted(found, key=lambda each: each.before or "~", reverse=True)


def _sight(measurements: Sequence[Measurement]) -> Iterator[str]:
    tokens = [f"tokens of {SIZES[0]}", *(f"of {size:,}" for size in SIZES[1:])]
    yield from _head(["client", "version", "day", *(_header(column) for column in SIGHT), *tokens])
    for each in measurements:
        cells = [_cell(each.findings.get(column)) for column in SIGHT]
        counts = [f"{each.tokens[size]:,}" if size in each.tokens else "" for size in SIZES]
        yield _row([CLIENTS[each.client].title, _version(each), each.day, *cells, *counts])


def _works(measurements: Sequence[Measurement]) -> Iterator[str]:
    yield from _head(["client", "version", *WORKS])
    for each in measurements:
        yield _row(
            [CLIENTS[each.client].title, _version(each), *(_cell(each.findings.get(column)) for column in WORKS)]
        )


def _slashes(slashes: Mapping[str, Typing]) -> Iterator[str]:
    yield from _head(["client", "version", "day", *Way])
    for name, typing in ((name, slashes[name]) for name in SLASHES if name in slashes):
        cells = ["; or: ".join(map(_arrived, typing.arrivals.get(way, ()))) for way in Way]
        yield _row([CLIENTS[name].title, typing.version, typing.day, *cells])


def _arrived(arrival: Arrival | None) -> str:
    return "the model was not asked" if arrival is None else str(arrival)


def _header(column: Column) -> str:
    return column.removeprefix("named ") if column in {Column.NAMED_100, Column.NAMED_1000} else column.value


def _head(names: Sequence[str]) -> Iterator[str]:
    yield _row(names)
    yield "|" + "---|" * len(names)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _version(measurement: Measurement) -> str:
    return f"{measurement.version} (before {measurement.before})" if measurement.before else measurement.version


def _cell(finding: Finding | None) -> str:
    if finding is None:
        return ""
    return f"{finding.verdict}: {finding.measured}" if finding.measured else finding.verdict.value


def _reasons(measurements: Sequence[Measurement]) -> Iterator[str]:
    for each in measurements:
        client = CLIENTS[each.client]
        reasons = [(column, finding.reason) for column, finding in each.findings.items() if finding.reason]
        remark = "" if each.before else client.remark
        if not reasons and not remark:
            continue
        yield f"**{client.title} {each.version}**" if each.before else f"**{client.title}**"
        yield ""
        for reason, columns in groupby(reasons, key=lambda pair: pair[1]):
            yield f"- {', '.join(column for column, _ in columns)}: {reason}."
        if remark:
            yield f"- {remark}"
        yield ""


if __name__ == "__main__":
    write_page()
