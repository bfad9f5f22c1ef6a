"""The pages of `docs/clients`: how each client is connected, from what `skillserve connect` knows of it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from server.capabilities.connect.clients import SYSTEMS, HttpServer, LocalServer, deeplink, entry_for, known_clients
from server.capabilities.connect.documents import with_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from server.capabilities.connect.clients import ClientFile, FilePath

__all__ = ["client_pages"]

_NOTE: Final = "<!-- Generated from server/capabilities/connect/clients.json by `make reference`; do not edit. -->"
_PROGRAM: Final = LocalServer("/path/to/skillserve", ("serve", "/path/to/skills"))
_KEPT_ALIVE: Final = (
    "{0} does not start a server again that has crashed or was killed (`kill -9`). So the entry has `--keep-alive`, "
    "with which the session goes on: [A server that is killed](../guides/connect-a-client.md#a-server-that-is-killed)."
)
_ADDRESS: Final = "http://127.0.0.1:8000/mcp"
_VARIABLE: Final = re.compile(r"\$\{(\w+):-([^}]*)\}")
_INDEX: Final = f"""# Clients

{_NOTE}

[`skillserve connect`](../guides/connect-a-client.md) adds the server to these clients, and removes it again. The page
of a client has its files, its entry, its restart and its log. *Seen* is the version of the real client that loaded a
skill after `skillserve connect`; the others follow their documentation and, if it knows them, the table of `add-mcp`.

| Client | Key | Project | Address | Seen |
|---|---|---|---|---|
"""


def client_pages(folder: Path) -> Mapping[Path, Callable[[], str]]:
    """Return the pages in `folder` with their generators."""
    pages: dict[Path, Callable[[], str]] = {folder / "index.md": _index}
    return pages | {folder / f"{key}.md": partial(_page, client) for key, client in known_clients().items()}


def _index() -> str:
    rows = (
        f"| [{client.title}]({key}.md) | `{key}` | {_yes(client.project)} | {_yes(client.http)} | {client.version} |\n"
        for key, client in sorted(known_clients().items(), key=lambda each: each[1].title.lower())
    )
    return _INDEX + "".join(rows)


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _page(client: ClientFile) -> str:
    return "\n\n".join(_blocks(client)) + "\n"


def _blocks(client: ClientFile) -> Iterator[str]:
    yield f"# {client.title}"
    yield _NOTE
    project = " --project" if not client.user else ""
    commands = [
        f"skillserve connect {client.key} ~/skills{project}    # shows the change, tries the server, and asks",
        f"skillserve connect {client.key}{project} --remove    # leaves the file as it was",
    ]
    yield "\n".join(["```sh", *commands, "```"])
    yield f"Afterwards: {client.next}." + (f" For a project: {client.project_next}." if client.project_next else "")
    yield "## Files"
    yield "\n".join(["| Where | File |", "|---|---|", *_files(client)])
    yield "## The entry"
    kept_alive = ("--keep-alive",) if client.keep_alive else ()
    yield _entry(client, replace(_PROGRAM, args=(*_PROGRAM.args, *kept_alive)))
    yield from _address(client)
    if client.log or client.log_help:
        yield "## If it does not work"
        yield "\n".join(_log(client))
    remarks = [*client.remarks, *([_KEPT_ALIVE.format(client.title)] if client.keep_alive else [])]
    if remarks:
        yield "## What to know"
        yield "\n".join(f"- {each}" for each in remarks)
    yield "## Where this comes from"
    facts = "[Facts about clients](../reference/clients.md) has what its model sees." if client.facts else ""
    yield " ".join(filter(None, [client.measured or "Not tried with the real client.", facts]))
    yield "\n".join(f"- {source}" for source in client.sources)


def _files(client: ClientFile) -> Iterator[str]:
    for where, path in _per_system(client.user):
        yield f"| {where} | {_shown(path)} |"
    for other in client.user_others:
        yield from (f"| {where}, if it is there | {_shown(path)} |" for where, path in _per_system(other))
    if client.project:
        others = "".join(f", or `{each}` if it is there" for each in client.project_others)
        yield f"| a project (`--project`) | `{client.project}`{others} |"


def _per_system(path: FilePath) -> Iterator[tuple[str, str]]:
    if isinstance(path, str):
        yield "your own", path
        return
    yield from ((system, path[key]) for key, system in SYSTEMS.items() if key in path)


def _shown(path: str) -> str:
    """Return a path for people: `${NAME:-usual}/x` is `usual/x`, with NAME said."""
    found = _VARIABLE.search(path)
    if found is None:
        return f"`{path}`"
    named = _VARIABLE.sub(lambda each: f"${each[1]}", path)
    return f"`{_VARIABLE.sub(lambda each: each[2], path)}` (`{named}` if that is set)"


def _entry(client: ClientFile, server: LocalServer | HttpServer) -> str:
    entry = entry_for(client, "skills", server) or {}
    text = with_entry("", client.format, (*client.path, "skills"), entry, in_list=client.in_list)
    return f"```{client.format}\n{text}```"


def _address(client: ClientFile) -> Iterator[str]:
    if client.http is None:
        yield f"{client.title} starts programs only: its file holds no address."
        return
    yield f"A server at an address, with `--http {_ADDRESS}` and a token in `--header`:"
    reads = client.variable is not None or "{bearer_variable}" in client.http.values()
    token = "${SKILLS_TOKEN}" if reads else "t0ken"
    server = HttpServer(_ADDRESS, {"Authorization": f"Bearer {token}"})
    yield _entry(client, server)
    if reads:
        yield (
            f"The header was given as `'Authorization: Bearer {token}'`: {client.title} reads the variable from its "
            "own environment, and the file holds no secret."
        )
    else:
        yield f"{client.title} reads no variables in headers, so the file holds the token as plain text."
    if deeplink(client, "skills", entry_for(client, "skills", server)):
        what = "" if deeplink(client, "skills", entry_for(client, "skills", _PROGRAM)) else " of a server at an address"
        yield f"`skillserve connect {client.key} --print` also prints a link{what} that {client.title} opens to add it."


def _log(client: ClientFile) -> Iterator[str]:
    if client.log_help:
        yield f"- {client.log_help[0].upper()}{client.log_help[1:]}."
    if client.log is not None:
        paths = (f"{where}: {_shown(path)}" for where, path in _per_system(client.log))
        yield f"- Its log: {'; '.join(paths).replace('{name}', 'skills').removeprefix('your own: ')}."
    yield f"- `skillserve connect {client.key} --print` shows the entry; the command in it answers on stdin and stdout."
