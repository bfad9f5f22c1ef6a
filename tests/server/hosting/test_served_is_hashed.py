"""What is served is what was hashed, while writers rewrite the files under clients of both eras.

Every version of a file has its number inside, and the writer keeps a table of the digests of all of them. A client
asks for the skill's entry, then for the bytes, then for the entry again: the bytes must be of no older version than
the first entry and of no newer one than the second.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from tests.server.sessions import Session, http_server, open_session

VERSIONS = 100
BURST = 3

SKILL = "skill://one/SKILL.md"
DATA = "skill://one/data.md"


class Params(types.RequestParams):
    model_config = ConfigDict(extra="allow")


class Result(types.Result):
    model_config = ConfigDict(extra="allow")


async def ask(session: Session, method: str, **params: Any) -> dict[str, Any] | None:
    """Return the answer, None where the server says that there is no such thing at the moment."""
    request: Any = types.Request(method=method, params=Params.model_validate(params))
    try:
        answer: dict[str, Any] = (await session.client.session.send_request(request, Result)).model_dump(by_alias=True)
    except MCPError as error:
        if error.code != types.INVALID_PARAMS:
            raise
        return None
    return None if answer.get("isError") else answer


def digest_of(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def skill_file(version: int) -> bytes:
    return f"---\nname: one\ndescription: Version {version:05}.\n---\nBody {version:05}.\n".encode()


def data_file(version: int) -> bytes:
    # Some files are longer than those before them, some shorter, and most as long.
    return f"data {version:05} ".encode() + b"x" * (100 * (version % 7 == 0))


def replace(path: Path, raw: bytes) -> None:
    scratch = path.with_name(f".{path.name}")
    scratch.write_bytes(raw)
    scratch.replace(path)


def rewrite(path: Path, raw: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(handle, raw)
    finally:
        os.close(handle)


@dataclass
class Book:
    """All versions of one file: by digest, and the last one."""

    path: Path
    make: Callable[[int], bytes]
    versions: dict[str, int] = field(default_factory=dict)
    between: set[str] = field(default_factory=set)
    last: int = 0

    def write(self, put: Callable[[Path, bytes], None]) -> None:
        raw = self.make(self.last + 1)
        self.versions[digest_of(raw)] = self.last + 1
        put(self.path, raw)
        self.last += 1


class Writer(threading.Thread):
    """Writes all versions, in bursts: after each it waits until a client has been given bytes once more."""

    def __init__(self, books: list[Book], put: Callable[[Path, bytes], None]) -> None:
        super().__init__(daemon=True)
        self.books, self.put = books, put
        self.rounds = threading.Semaphore(0)

    def run(self) -> None:
        for version in range(1, VERSIONS):
            for book in self.books:
                book.write(self.put)
            if version % BURST == 0:
                self.rounds.acquire()


@dataclass(frozen=True)
class Entry:
    """What `skills/get` said."""

    digests: dict[str, str]
    sizes: dict[str, int]
    description: str


async def entry(session: Session) -> Entry | None:
    answer = await ask(session, "skills/get", uri=SKILL)
    if answer is None:
        return None
    files = answer["skill"]["resources"]
    digests = {file["uri"]: file["digest"] for file in files}
    sizes = {file["uri"]: file["size"] for file in files}
    return Entry(digests, sizes, answer["skill"]["frontmatter"]["description"])


async def read(session: Session, uri: str) -> bytes | None:
    answer = await ask(session, "resources/read", uri=uri)
    return None if answer is None else answer["contents"][0]["text"].encode()


async def read_by_tool(session: Session, uri: str) -> bytes | None:
    arguments = {"skill": "one", "path": uri.removeprefix("skill://one/")}
    answer = await ask(session, "tools/call", name="read_skill_file", arguments=arguments)
    return None if answer is None else answer["content"][0]["text"].encode()


async def activate(session: Session, _: str) -> bytes | None:
    """Activate the skill; return the SKILL.md that must have been behind the text."""
    answer = await ask(session, "tools/call", name="activate_skill", arguments={"name": "one"})
    if answer is not None and "has not changed since" in answer["content"][0]["text"]:
        # Asked again after this line, the server sends the text.
        return await activate(session, _)
    return None if answer is None else skill_file(int(answer["content"][0]["text"].split("Body ")[1][:5]))


WAYS = [(read, DATA), (read_by_tool, DATA), (read, SKILL), (read_by_tool, SKILL), (activate, SKILL)]


@dataclass
class Observer:
    """Goes through rounds of entry, bytes and entry, and notes every breach of the rules."""

    books: dict[str, Book]
    faults: list[str] = field(default_factory=list)
    seen: set[tuple[str, int]] = field(default_factory=set)

    async def watch(self, session: Session, writer: Writer, ways: Iterator[Any]) -> None:
        while writer.is_alive():
            way, uri = next(ways)
            first, raw, second = await entry(session), await way(session, uri), await entry(session)
            for each in (first, second):
                self.check_entry(each)
            if raw is not None:
                self.check_bytes(uri, first, raw, second)
                writer.rounds.release()

    def version(self, uri: str, found: Entry | None) -> int | None:
        return None if found is None else self.books[uri].versions.get(found.digests[uri])

    def check_entry(self, found: Entry | None) -> None:
        """Check that an entry is of versions that were written, and its frontmatter of the bytes with its digest."""
        if found is None:
            return
        for uri, book in self.books.items():
            version = self.version(uri, found)
            if version is None:
                if found.digests[uri] not in book.between:
                    self.faults.append(f"{uri}: an entry with a digest of no version")
            elif found.sizes[uri] != len(book.make(version)):
                self.faults.append(f"{uri}: an entry of version {version} with the size {found.sizes[uri]}")
            elif uri == SKILL and found.description != f"Version {version:05}.":
                self.faults.append(f"the entry of version {version} says {found.description}")

    def check_bytes(self, uri: str, first: Entry | None, raw: bytes, second: Entry | None) -> None:
        """Check that bytes are of a version between those of the entries before and after."""
        book, digest = self.books[uri], digest_of(raw)
        if digest in book.between:
            return
        version, low, high = book.versions.get(digest), self.version(uri, first), self.version(uri, second)
        if version is None:
            self.faults.append(f"{uri}: bytes of no version: {raw[:60]!r}")
            return
        self.seen.add((uri, version))
        if (low is not None and version < low) or (high is not None and version > high):
            self.faults.append(f"{uri}: bytes of version {version} between entries of {low} and {high}")


@pytest.mark.parametrize("put", [replace, rewrite])
async def test_bytes_are_of_no_older_version_than_the_entry_before_and_of_no_newer_than_the_one_after(
    put: Callable[[Path, bytes], None], skills: Path
) -> None:
    folder = skills / "one"
    folder.mkdir()
    books = {SKILL: Book(folder / "SKILL.md", skill_file), DATA: Book(folder / "data.md", data_file)}
    for book in books.values():
        book.write(replace)
        if put is rewrite:
            # Whoever truncates a file shows it empty for a moment, and with it whoever reads just then its first byte.
            book.between |= {digest_of(b""), digest_of(book.make(1)[:1])}
    observer, writer = Observer(books), Writer(list(books.values()), put)
    async with (
        http_server(skills) as url,
        open_session(url, "handshake", (SKILL, DATA)) as old,
        open_session(url, "modern", (SKILL, DATA)) as new,
    ):
        with anyio.fail_after(60):
            writer.start()
            async with anyio.create_task_group() as tasks:
                for number, session in enumerate((old, new, old, new)):
                    ways = cycle(WAYS[number:] + WAYS[:number])
                    tasks.start_soon(observer.watch, session, writer, ways)
        assert observer.faults == []
        for session in (old, new):
            for uri in (SKILL, DATA):
                assert await _until_last(session, books[uri], uri) == VERSIONS
            found = await entry(session)
            observer.check_entry(found)
            assert [observer.version(uri, found) for uri in (SKILL, DATA)] == [VERSIONS, VERSIONS]
    assert observer.faults == []
    assert {uri for uri, _ in observer.seen} == {SKILL, DATA}
    assert len(observer.seen) > BURST


async def _until_last(session: Session, book: Book, uri: str) -> int | None:
    """Wait until the last version is served; before that, each version served is followed by news of the next."""
    while True:
        session.told.clear()
        raw = await read(session, uri)
        version = None if raw is None else book.versions.get(digest_of(raw))
        if version == book.last:
            return version
        await session.until_told(f"updated {uri}")
