"""The requests of the benchmark, and a recording of our server's answers for the floor.

A sample of skills is enough, because the same code answers for each skill. A short recording loads quickly and does not
distort the floor's cold start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpus import BUNDLED
from wire import BenchError, Era

if TYPE_CHECKING:
    from collections.abc import Iterable

    from client import Client
    from wire import Message

    Call = tuple[str, Message]
    # The calls of one timing: usually one; for a paginated list, one for each page.
    Walk = list[Call]

SAMPLE = 20
# The key of the first page, which has no cursor.
FIRST_PAGE = ""
# The receipt of a text that no skill has. A session of the handshake era would be told that it has a text already. With
# this receipt it gets the current text, made anew each time: a model asks for such a text once after an edit.
OUTDATED = "0" * 12


def operations(era: Era, names: list[str], cursors: Iterable[str]) -> dict[str, list[Walk]]:
    """Return the timed operations with their walks, which are used in rotation and have equal lengths."""
    return {
        "tools/list": [[("tools/list", {})]],
        "prompts/list": [[("prompts/list", {})]],
        "activate_skill": [[_activation(era, name)] for name in names],
        "read SKILL.md": [[_reading(main_uri(name))] for name in names],
        "read bundled file": [[_reading(uri)] for uri in _bundled_uris(names)],
        "read_skill_file": [[_file(*file)] for file in _other_files(names)],
        "skills/list, all pages": [[_listing(cursor) for cursor in cursors]],
        "skills/get": [[_getting(main_uri(name))] for name in names],
        "directory read, skill": [[_directory(uri)] for uri in _root_uris(names)],
        "directory read, subfolder": [[_directory(uri)] for uri in _subfolder_uris(names)],
    }


def first_operations(era: Era, names: list[str]) -> dict[str, list[Call]]:
    """Return the operations of which a skill's first is timed, with one call for each skill."""
    return {
        "first activate_skill": [_activation(era, name) for name in names],
        "first read of a file": [_reading(uri) for uri in _bundled_uris(names)],
        "first read_skill_file": [_file(*file) for file in _other_files(names)],
    }


def early_operations(era: Era, names: list[str]) -> dict[str, list[Walk]]:
    """Return the operations that are timed in a server's first seconds, with their walks."""
    timed = ("tools/list", "activate_skill", "read SKILL.md", "skills/get")
    return {f"{name}, early": walks for name, walks in operations(era, names, []).items() if name in timed}


def record(client: Client, sample: int = SAMPLE) -> tuple[list[str], Message]:
    """Send every request once; return the names of the sampled skills and the results."""
    tools = client.call("tools/list")
    names = _sample(tools, sample)
    reads = [main_uri(name) for name in names] + _bundled_uris(names)
    answers = {
        "tools": tools,
        "prompts": client.call("prompts/list"),
        "activations": {name: client.call(*_activation(client.era, name)) for name in names},
        "files": {"/".join(file): client.call(*_file(*file)) for file in _other_files(names)},
        "reads": {uri: client.call(*_reading(uri)) for uri in reads},
        "pages": _pages(client),
        "skills": {uri: client.call(*_getting(uri)) for uri in map(main_uri, names)},
        "directories": {uri: client.call(*_directory(uri)) for uri in _root_uris(names) + _subfolder_uris(names)},
    }
    if failed := [name for name, result in answers["activations"].items() if result.get("isError")]:
        raise BenchError(f"activate_skill failed for {failed[0]}")
    listed = {entry["uri"] for page in answers["pages"].values() for entry in page["skills"]}
    if missing := [name for name in names if main_uri(name) not in listed]:
        raise BenchError(f"skills/list lacks {missing[0]}")
    return names, answers


def main_uri(name: str) -> str:
    """Return the URI of a skill's SKILL.md."""
    return f"skill://{name}/SKILL.md"


def _bundled_uris(names: list[str]) -> list[str]:
    return [f"skill://{name}/{BUNDLED[index % len(BUNDLED)]}" for index, name in enumerate(names)]


def _other_files(names: list[str]) -> list[tuple[str, str]]:
    """Return a skill and another bundled file for each name."""
    return [(name, BUNDLED[(index + 1) % len(BUNDLED)]) for index, name in enumerate(names)]


def _root_uris(names: list[str]) -> list[str]:
    return [f"skill://{name}" for name in names]


def _subfolder_uris(names: list[str]) -> list[str]:
    return [uri.rpartition("/")[0] for uri in _bundled_uris(names)]


def _pages(client: Client) -> dict[str, Message]:
    """Read all pages of `skills/list`; return them in order, by cursor."""
    pages: dict[str, Message] = {}
    cursor: str | None = FIRST_PAGE
    while cursor is not None:
        if cursor in pages:
            raise BenchError("skills/list does not end: a cursor was returned twice")
        pages[cursor] = client.call(*_listing(cursor))
        cursor = pages[cursor].get("nextCursor")
    return pages


def _sample(tools: Message, count: int) -> list[str]:
    """Return names that are spread over the whole enum of the tool."""
    try:
        schema = next(tool["inputSchema"] for tool in tools["tools"] if tool["name"] == "activate_skill")
        names: list[str] = schema["properties"]["name"]["enum"]
    except (StopIteration, KeyError) as error:
        raise BenchError("tools/list offers no activate_skill with an enum of names") from error
    return names[:: max(1, len(names) // count)][:count]


def _activation(era: Era, name: str) -> Call:
    receipt = {"have": OUTDATED} if era is Era.HANDSHAKE else {}
    return ("tools/call", {"name": "activate_skill", "arguments": {"name": name, **receipt}})


def _file(skill: str, path: str) -> Call:
    return ("tools/call", {"name": "read_skill_file", "arguments": {"skill": skill, "path": path}})


def _reading(uri: str) -> Call:
    return ("resources/read", {"uri": uri})


def _listing(cursor: str) -> Call:
    return ("skills/list", {} if cursor == FIRST_PAGE else {"cursor": cursor})


def _getting(uri: str) -> Call:
    return ("skills/get", {"uri": uri})


def _directory(uri: str) -> Call:
    return ("resources/directory/read", {"uri": uri})
