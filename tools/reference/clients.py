"""The facts about clients by subject: what each means, and the tables of `docs/reference/clients.md` with sources."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from server.clients.known import KNOWN_CLIENTS
from server.clients.profile import Commands, Fact, Limit, NativeListing, Overflow, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from server.clients.profile import ClientProfile, Evidence

__all__ = ["FACTS", "SUBJECTS", "clients_page", "evidence_of"]


class Column(NamedTuple):
    """A fact: its field in the profile, its heading, and what it means."""

    field: str
    heading: str
    meaning: str


class Subject(NamedTuple):
    """The columns of one table."""

    title: str
    columns: tuple[Column, ...]


SUBJECTS = (
    Subject(
        "Who they are",
        (
            Column("called", "tool `x` of server `skills`", "what its model calls the tool"),
            Column("tool_name", "tool name", "the longest name of a tool, mostly including the server's name"),
            Column("max_tools", "tools", "the most tools of all servers together"),
            Column("own_activation", "own activate_skill", "it has a tool `activate_skill` of its own"),
            Column("protocol", "protocol", "the protocol version that it asks for"),
            Column("capabilities", "capabilities", "the capabilities that it declares"),
        ),
    ),
    Subject(
        "What the model is shown",
        (
            Column("description", "description", "how much of a tool's description the model sees"),
            Column("instructions", "instructions", "how much of the server's instructions the model sees"),
            Column("framed", "framed", "the caution under which the server's texts are shown"),
            Column("schema", "schema", "the size in bytes from which a tool is dropped because of its input schema"),
            Column("checks_enum", "checks enum", "it refuses a call itself if a value is not in the enum that it read"),
            Column("drops_enum", "drops enum", "the model sees no enum"),
        ),
    ),
    Subject(
        "What is loaded late, and how it is found",
        (
            Column("lazy_tools", "lazy tools", "tools are loaded only when the model searches for them"),
            Column("always_load", "always load", "`anthropic/alwaysLoad` in a tool's `_meta` prevents that"),
            Column("deferred", "before", "how much of a description the model sees before the tool is loaded"),
            Column("loaded", "after", "how much of it once the search has loaded the tool, if that is more than usual"),
            Column("searched", "searched", "the texts in which the client's search looks for tools"),
            Column("search_hint", "search hint", "among them is `anthropic/searchHint` in a tool's `_meta`"),
            Column("search_answer", "search answer", "the longest answer of that search, schemas included"),
        ),
    ),
    Subject(
        "What becomes of results",
        (
            Column("result", "result", "the longest tool result before the client cuts it or writes it to a file"),
            Column("model_results", "by model", "the same for conversations with these models"),
            Column("raised_result", "raised", "the limit to which `anthropic/maxResultSizeChars` in `_meta` raises it"),
            Column("cut_result", "of a longer one", "what the model reads of a result beyond the limit"),
            Column("structure", "structured content", "what `structuredContent` does to the text beside it"),
            Column("embedded", "embedded", "what reaches the model of an embedded resource"),
            Column("links", "links", "what reaches the model of a resource link"),
            Column("untrusted", "untrusted", "results are framed as data whose instructions are to be ignored"),
            Column("compaction", "compacts", "it drops or summarises old results on its own"),
        ),
    ),
    Subject(
        "Changes and resources",
        (
            Column("list_changed", "list changed", "it fetches a list again after `list_changed`"),
            Column(
                "stalls",
                "stalls",
                "it answers nothing after `list_changed`, so the server sends it none once it has listed prompts",
            ),
            Column("redefines", "changed tool", "the model sees a changed tool in the same conversation"),
            Column("new_tools", "new tool", "the model sees a tool of a new name in the same conversation"),
            Column("model_reads", "model reads resources", "the model can read resources by itself"),
            Column("reads_disk", "reads disk", "its tools read files outside the workspace as they do within it"),
            Column("starts_in_workspace", "starts in workspace", "its workspace is the working directory of servers"),
        ),
    ),
    Subject(
        "Prompts",
        (
            Column("prompts", "prompts", "prompts are shown as commands"),
            Column("tools_of", "tools of", "it makes a tool of each entry of these lists, so they are empty for it"),
            Column("prompt_called", "prompt `x` of server `skills`", "how users call the prompt"),
            Column("prompt_words", "words after it", "what becomes of the words that users type after the command"),
        ),
    ),
    Subject(
        "Skills that it reads by itself",
        (
            Column("native", "own listing", "how it lists skills that it finds in folders"),
            Column("commands", "commands", "how many of its built-in slash commands are known"),
        ),
    ),
)
"""All facts; a column that no client fills is left out of its table."""

FACTS = {column.field: column.heading for subject in SUBJECTS for column in subject.columns}
"""The fields of a profile that are facts, with their labels."""

_OVERFLOWS = {
    Overflow.NAMES: "then names alone",
    Overflow.SHORTENED: "then shortened",
    Overflow.OMITTED: "then left out",
}
_UNITS = {Unit.CHARACTERS: "", Unit.BYTES: " bytes", Unit.JSON: " of JSON", Unit.JSON_BYTES: " bytes of JSON"}
_HEADING = "\n## The facts\n\n"

_AS_CODE = frozenset({"called", "prompt_called"})
# These values hold what a model or a user writes, among other words.
_CALL = re.compile(r"[^\s,]*(?:_|\bx\b)[^\s,]*")


def evidence_of(client: ClientProfile) -> Iterator[tuple[str, Evidence]]:
    """Yield the label and the evidence of each known fact about a client."""
    if client.named:
        yield "name", client.named
    for field, label in FACTS.items():
        for fact in _facts(client, field):
            yield label, fact.evidence
    if client.whole:
        yield from ((FACTS[field], client.whole.evidence) for field in client.whole.value)
    for earlier in client.earlier:
        yield from ((f"{FACTS[field]} before {earlier.before}", fact.evidence) for field, fact in earlier.facts.items())
    yield from (("options", option.evidence) for option in client.options)
    yield from (("notes", note.evidence) for note in client.notes)


def _facts(client: ClientProfile, field: str) -> Iterator[Any]:
    value = getattr(client, field)
    if field == "model_results":
        yield from (limit for _, limit in value)
    elif value is not None:
        yield value


def clients_page(page: Path) -> str:
    """Return the page at `page` with the present tables, user options, notes and sources."""
    before, heading, _ = page.read_text(encoding="utf-8").partition(_HEADING)
    return before + heading + _facts_of_all()


def _facts_of_all() -> str:
    blocks = [_names()]
    blocks += [block for subject in SUBJECTS for block in _subject(subject)]
    blocks += ["### What users can set", _options(), "### Notes", *_notes(), "### Sources", *_sources()]
    return "\n\n".join(blocks) + "\n"


def _names() -> str:
    rows = [[client.title, f"`{client.key}`", _sent_names(client)] for client in KNOWN_CLIENTS]
    return _table(["client", "key", "calls itself"], rows)


def _sent_names(client: ClientProfile) -> str:
    names = ", ".join(f"`{name}`" if client.exact else f"`{name}…`" for name in client.names)
    return f"{names}, with {' and '.join(client.declares)}" if client.declares else names


def _subject(subject: Subject) -> Iterator[str]:
    """Yield the heading, the meanings and the table of a subject: only filled columns, and clients with a fact."""
    filled = [column for column in subject.columns if any(_cell(client, column.field) for client in KNOWN_CLIENTS)]
    rows = [[client.title, *(_cell(client, column.field) for column in filled)] for client in KNOWN_CLIENTS]
    yield f"### {subject.title}"
    yield "\n".join(_meaning(column) for column in filled)
    yield _table(["client", *(column.heading for column in filled)], [row for row in rows if any(row[1:])])


def _meaning(column: Column) -> str:
    return f"- **{column.heading}**: {column.meaning}"


def _options() -> str:
    rows = [
        [client.title, f"`{option.option}`", option.raises.value, option.remark]
        for client in KNOWN_CLIENTS
        for option in client.options
    ]
    return _table(["client", "option", "shows more of", "remark"], rows)


def _notes() -> Iterator[str]:
    for client in KNOWN_CLIENTS:
        if client.notes:
            yield "\n".join([f"**{client.title}**", "", *(f"- {note.value}" for note in client.notes)])


def _sources() -> Iterator[str]:
    for client in KNOWN_CLIENTS:
        labels: dict[Evidence, list[str]] = {}
        for label, evidence in evidence_of(client):
            labels.setdefault(evidence, []).append(label)
        lines = (f"- {source} ({date}): {', '.join(dict.fromkeys(of))}" for (source, date), of in labels.items())
        yield "\n".join([f"**{client.title}**", "", *lines])


def _table(headings: Iterable[str], rows: Iterable[list[str]]) -> str:
    columns = list(headings)
    return "\n".join(f"| {' | '.join(row)} |" for row in [columns, ["-"] * len(columns), *rows])


def _cell(client: ClientProfile, field: str) -> str:
    """Return what is known of one fact, with what was different in earlier versions."""
    if field == "model_results":
        return _by_model(client)
    earlier = (
        f"{_value(field, known.facts[field])} before {known.before}" for known in client.earlier if field in known.facts
    )
    now = _value(field, getattr(client, field))
    if not now and client.whole and field in client.whole.value:
        now = "whole"
    return "; ".join(filter(None, [now, *earlier]))


def _by_model(client: ClientProfile) -> str:
    models: dict[str, list[str]] = {}
    for model, limit in client.model_results:
        models.setdefault(_limit(limit), []).append(f"`{model}`")
    return "; ".join(f"{', '.join(names)}: {limit}" for limit, names in models.items())


def _value(field: str, fact: object) -> str:
    match fact:
        case Limit():
            return _limit(fact)
        case Fact():
            text = _text(fact.value)
            return _CALL.sub(r"`\g<0>`", text) if field in _AS_CODE else text
        case NativeListing():
            return _listing(fact)
        case Commands():
            return str(len(fact.names))
    return ""


def _limit(limit: Limit) -> str:
    lines = f" or {limit.lines:,} lines" if limit.lines else ""
    return f"{limit.characters:,}{_UNITS[limit.unit]}{lines}" if limit.characters else "none"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value).format(server="skills", tool="x")


def _listing(native: NativeListing) -> str:
    budget = f"{native.percent} % of the context" if native.percent else ""
    budget = budget or (f"{native.characters:,}" if native.characters else "")
    if not budget:
        return "all skills"
    entry = f", entries up to {native.entry:,}" if native.entry else ""
    return f"{budget}{entry}, {_OVERFLOWS[native.overflow]}"
