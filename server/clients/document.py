"""Render the facts about clients for `docs/reference/clients.md`: a table, and the source of each fact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.clients.known import KNOWN_CLIENTS
from server.clients.profile import Commands, Fact, Limit, NativeListing, Overflow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.clients.profile import ClientProfile, Evidence

__all__ = ["FACTS", "evidence_of", "facts_document"]

FACTS = {
    "description": "description",
    "instructions": "instructions",
    "schema": "schema",
    "checks_enum": "checks enum",
    "result": "result",
    "raised_result": "result, raised",
    "structure": "structured content",
    "untrusted": "untrusted",
    "max_tools": "tools",
    "tool_name": "tool name",
    "called": "called",
    "own_activation": "own activate_skill",
    "lazy_tools": "lazy tools",
    "always_load": "always load",
    "deferred": "deferred",
    "searched": "searched",
    "search_hint": "search hint",
    "search_answer": "search answer",
    "model_reads": "model reads resources",
    "reads_disk": "reads disk",
    "prompts": "prompts",
    "list_changed": "list changed",
    "redefines": "redefines",
    "new_tools": "new tools",
    "compaction": "compacts",
    "native": "own listing",
    "commands": "commands",
}
"""The fields of a profile that are facts, with their labels."""

_OVERFLOWS = {
    Overflow.NAMES: "then names alone",
    Overflow.SHORTENED: "then shortened",
    Overflow.OMITTED: "then left out",
}


def evidence_of(client: ClientProfile) -> Iterator[tuple[str, Evidence]]:
    """Yield the label and the evidence of each known fact about a client."""
    if client.named:
        yield "name", client.named
    for field, label in FACTS.items():
        fact = getattr(client, field)
        if fact is not None:
            yield label, fact.evidence


def facts_document() -> str:
    """Return the table and the sources in Markdown."""
    headings = ["client", "calls itself", *FACTS.values()]
    lines = [_row(headings), _row(["-"] * len(headings))]
    for client in KNOWN_CLIENTS:
        names = ", ".join(f"`{name}…`" for name in client.names)
        cells = (_cell(getattr(client, field)) for field in FACTS)
        lines.append(_row([f"{client.title} (`{client.key}`)", names, *cells]))
    lines += ["", "### Sources", ""]
    for client in KNOWN_CLIENTS:
        lines.append(f"**{client.title}**")
        lines += [f"- {label}: {evidence.source} ({evidence.date})" for label, evidence in evidence_of(client)]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(fact: Limit | Fact[int] | Fact[bool] | Fact[str] | NativeListing | Commands | None) -> str:
    match fact:
        case Limit():
            return f"{fact.characters:,}"
        case Fact():
            return _value(fact.value)
        case NativeListing():
            return _listing(fact)
        case Commands():
            return str(len(fact.names))
    return ""


def _value(value: bool | int | str) -> str:  # noqa: FBT001 - a fact
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _listing(native: NativeListing) -> str:
    budget = f"{native.percent} % of the context" if native.percent else ""
    budget = budget or (f"{native.characters:,}" if native.characters else "")
    if not budget:
        return "all skills"
    entry = f", entries up to {native.entry:,}" if native.entry else ""
    return f"{budget}{entry}, {_OVERFLOWS[native.overflow]}"


if __name__ == "__main__":
    print(facts_document(), end="")  # noqa: T201 - the output goes into the document
