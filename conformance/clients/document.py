"""Write the page docs/reference/clients-measured.md from results.json: `python -m conformance.clients.document`."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from conformance.clients.all_clients import CLIENTS
from conformance.clients.checks import Column
from conformance.clients.results import kept
from conformance.processes import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.clients.checks import Finding
    from conformance.clients.measurement import Measurement

__all__ = ["PAGE", "page", "write_page"]

PAGE = REPOSITORY / "docs" / "reference" / "clients-measured.md"

HEAD = """\
# Clients, measured

`make clients` runs real MCP clients against this server and a scripted model, records every request to the model, and
reads each answer below off these recordings. [Conformance](../explanation/conformance.md#real-clients) describes how.
This page is generated from `conformance/clients/results.json`.

| Column | Question |
|---|---|
| sees of 10, of 100, of 1,000 | How many skills does the first request to the model name? “In texts” counts the names \
in descriptions and instructions; the others stand only in the list of allowed values. |
| activates | Does an activation bring the body of the skill? |
| finds in 100, in 1,000 | Is a skill that no text of the first request names found by a search, and activated? |
| news: added | Does the model hear of a skill that is added during the conversation, and can it activate it? |
| news: edited | Does a result say that a loaded skill has changed, and does another activation bring the new text? |
| 30 KB body | Does every line of a long skill reach the model: whole, or in parts where each says how to read on? |
"""


def page(results: Mapping[str, Measurement]) -> str:
    """Return the page."""
    shown = [results[name] for name in CLIENTS if name in results]
    return "\n".join([HEAD, *_table(shown), "", "## Reasons and conditions", "", *_reasons(shown)]).rstrip() + "\n"


def write_page() -> None:
    """Write the page from the kept results."""
    PAGE.write_text(page(kept()), encoding="utf-8")


def _table(measurements: list[Measurement]) -> Iterator[str]:
    yield "| client | version | day | " + " | ".join(Column) + " |"
    yield "|" + "---|" * (len(Column) + 3)
    for each in measurements:
        cells = (_cell(each.findings[column]) for column in Column)
        yield f"| {CLIENTS[each.client].title} | {each.version} | {each.day} | {' | '.join(cells)} |"


def _cell(finding: Finding) -> str:
    return f"{finding.verdict}: {finding.measured}" if finding.measured else finding.verdict.value


def _reasons(measurements: list[Measurement]) -> Iterator[str]:
    for each in measurements:
        client = CLIENTS[each.client]
        reasons = [(column, finding.reason) for column, finding in each.findings.items() if finding.reason]
        if not reasons and not client.remark:
            continue
        yield f"**{client.title}**"
        yield ""
        for reason, columns in groupby(reasons, key=lambda pair: pair[1]):
            yield f"- {', '.join(column for column, _ in columns)}: {reason}."
        if client.remark:
            yield f"- {client.remark}"
        yield ""


if __name__ == "__main__":
    write_page()
