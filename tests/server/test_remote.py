"""The client of other servers: against real ones in both eras, and against one that lies."""

from __future__ import annotations

import base64
import gzip
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from jsonschema import Draft202012Validator

from server.remote.address import Address, AddressError
from server.remote.bounds import Exchange
from server.remote.checking import RemoteSkill, check_files, list_skills
from server.remote.client import Limits, RemoteError, RemoteServer, connect
from server.remote.fetching import Fetched, fetch_skills
from server.remote.runs import Outcome, verify_server
from skills_core import Diagnostic, Reason, Severity
from skills_core.format.yaml12 import MAX_DEPTH
from skills_core.remote.disk_names import ORIGIN_FILE
from tests.conftest import MakeSkill
from tests.server.hostile import Hostile, Raw, RpcError, listed, running, serve_skill, skill_md
from tests.server.sessions import REPOSITORY, Era, http_server, server_environment
from tests.server.test_cli import DIAGNOSTIC

MIB = 1024 * 1024

ANSWER = {
    "type": "object",
    "required": ["server", "protocol", "skills", "diagnostics"],
    "properties": {
        "server": {"type": "string"},
        "protocol": {"type": ["string", "null"]},
        "diagnostics": {"type": "array", "items": DIAGNOSTIC},
        "skills": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["uri", "name", "verified", "files", "bytes", "diagnostics"],
                "properties": {
                    "verified": {"type": "boolean"},
                    "files": {"type": "integer"},
                    "bytes": {"type": "integer"},
                    "diagnostics": {"type": "array", "items": DIAGNOSTIC},
                    "state": {"enum": ["written", "replaced", "unchanged", "included", "refused"]},
                    "folder": {"type": ["string", "null"]},
                },
            },
        },
    },
}


async def skillserve(*arguments: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "server", *map(str, arguments)]
    with anyio.fail_after(60):
        return await anyio.run_process(
            command, check=False, cwd=REPOSITORY, env={**server_environment(), **environment}
        )


async def verified(url: str, *names: str) -> Outcome:
    with anyio.fail_after(60):
        return await verify_server(Address.parse(url), names, lambda _: None)


def codes(diagnostics: tuple[Diagnostic, ...] | list[Diagnostic]) -> set[str]:
    return {diagnostic.code.value for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR}


def faults(outcome: Outcome) -> set[str]:
    """Return the codes of all errors, of the server and of its skills."""
    found = codes(outcome.diagnostics)
    for result in outcome.results:
        assert isinstance(result, RemoteSkill)
        found |= codes(result.diagnostics)
    assert outcome.done == (not found and bool(outcome.results))
    return found


@asynccontextmanager
async def connected(app: Hostile, limits: Limits | None = None) -> AsyncGenerator[RemoteServer]:
    async with running(app) as url, connect(Address.parse(url), limits) as server:
        yield server


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ORIGIN_FILE)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def varied(make_skill: MakeSkill) -> None:
    """Write skills that have everything: odd names, bytes of all kinds, nesting, and one name twice."""
    make_skill("plain", fields="license: MIT\ndate: 2026-01-02\nanswer: yes\nnumber: 1.0")
    make_skill("odd", files={"a b/c%.md": b"text", "bin": bytes(range(256)), "empty": b"", "caf\u00e9/#?.md": b"\r\n"})
    make_skill("outer", files={"z.md": b"z"})
    make_skill("outer/inner", files={"x.md": b"x"})
    make_skill("acme/refunds")
    make_skill("corp/refunds")


async def test_all_that_this_product_serves_verifies_in_both_eras(
    skills: Path, make_skill: MakeSkill, era: Era
) -> None:
    varied(make_skill)
    mode = "legacy" if era == "handshake" else "auto"
    async with http_server(skills) as url, connect(Address.parse(url), mode=mode) as server:
        assert (server.protocol == "2026-07-28") == (era == "modern")
        assert server.directory_read == (era == "modern")
        checked = [await check_files(server, skill) for skill in await list_skills(server)]
    assert [skill.diagnostics for skill in checked] == [()] * 6
    assert sorted(skill.name for skill in checked) == ["inner", "odd", "outer", "plain", "refunds", "refunds"]
    for skill in checked:
        assert skill.entry is not None
        assert dict(skill.contents) == tree(skills / skill.entry.path)


async def test_a_skill_of_the_largest_size_there_is_verifies(skills: Path, make_skill: MakeSkill) -> None:
    folder = make_skill("large", files={f"{number}.txt": b"" for number in range(508)})
    # JSON spells each of these characters with two bytes, six, or as base64.
    (folder / "lines.txt").write_bytes(b"\n" * (5 * MIB))
    (folder / "control.txt").write_bytes(b"\x01" * (5 * MIB))
    size = 6 * MIB - (folder / "SKILL.md").stat().st_size
    (folder / "bytes.bin").write_bytes(bytes(size))
    async with http_server(skills) as url:
        outcome = await verified(url)
    assert faults(outcome) == set()
    (skill,) = outcome.results
    assert isinstance(skill, RemoteSkill)
    assert skill.entry is not None
    assert (len(skill.entry.files), skill.entry.size) == (512, 16 * MIB)


async def test_an_edit_while_a_skill_is_checked_is_no_lie(skills: Path, make_skill: MakeSkill) -> None:
    folder = make_skill("one", files={"a.md": b"before"})
    async with http_server(skills) as url, connect(Address.parse(url)) as server:
        (skill,) = await list_skills(server)
        (folder / "a.md").write_bytes(b"after!!")
        checked = await check_files(server, skill)
    assert checked.sound
    assert checked.contents["a.md"] == b"after!!"


Lie = Callable[[Hostile], object]


def spoil(**changes: Any) -> Lie:
    """Change the entry's second file."""
    return lambda app: app.one.resources[1].update(changes)


def entry(**changes: Any) -> Lie:
    return lambda app: app.one.entry.update(changes)


def frontmatter(**changes: Any) -> Lie:
    return lambda app: app.one.entry["frontmatter"].update(changes)


def answer(method: str, value: Any) -> Lie:
    return lambda app: app.answers.update({method: value})


def contents(make: Callable[[str, bytes], Any]) -> Lie:
    """Answer reads with what `make` makes of the URI and the true bytes."""

    def lie(app: Hostile) -> None:
        app.answers["resources/read"] = lambda params: make(params["uri"], app.one.contents[params["uri"]])

    return lie


def block(**fields: Any) -> dict[str, Any]:
    return Hostile.complete(contents=[fields])


def rotate(app: Hostile) -> None:
    """Serve something else at each read, and always announce what was served before."""
    turns = iter(range(1000))

    def read(params: Any) -> dict[str, Any]:
        uri = params["uri"]
        raw = skill_md("one", f"turn: {next(turns)}\n") if uri.endswith("/SKILL.md") else b"a"
        app.one.resources[0].update(listed(app.one.uri, app.one.contents[app.one.uri]))
        app.one.contents[app.one.uri] = raw
        return app.blob(uri, raw)

    app.answers["resources/read"] = read


def raises(code: int, message: str) -> Callable[[Any], Any]:
    def answer(_: Any) -> Any:
        raise RpcError(code, message)

    return answer


def repeated_cursor(app: Hostile) -> None:
    app.answers["skills/list"] = app.complete(skills=[], nextCursor="again")


def many_files(app: Hostile) -> None:
    for number in range(511):
        app.one.add(f"skill://one/{number}.md", b"")


def hidden_file(app: Hostile) -> None:
    """Serve a file, and show it in its directory, that the entry does not list."""
    app.extension = {"directoryRead": True}
    app.one.contents["skill://one/sub/hidden.md"] = b"hidden"


def directory(*children: dict[str, Any]) -> Lie:
    def lie(app: Hostile) -> None:
        app.extension = {"directoryRead": True}
        app.answers["resources/directory/read"] = {"resultType": "complete", "resources": list(children)}

    return lie


def two_entries(app: Hostile) -> None:
    second = {**app.one.entry, "resources": app.one.resources[:1]}
    app.answers["skills/list"] = app.complete(skills=[app.one.entry, second])


def incomplete_outer(app: Hostile) -> None:
    app.skills.append(serve_skill("one/inner"))


def nest(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


MANY_VALUES = b'{"jsonrpc":"2.0","id":1,"result":{"x":[' + b"[]," * (2 * MIB) + b"0]}}"
PACKED = gzip.compress(b'{"jsonrpc":"2.0","id":2,"result":{"skills":[]}}')
FOREIGN = {"uri": "skill://two/x.md", "name": "x"}

LIES: dict[str, tuple[Lie, set[str]]] = {
    "another digest": (spoil(digest="sha256:" + "0" * 64), {"digest_mismatch"}),
    "another size": (spoil(size=2), {"size_mismatch"}),
    "a size of nothing": (spoil(size=0), {"size_mismatch"}),
    "16 MiB and a byte": (spoil(size=16 * MIB), {"too_large"}),
    "513 files": (many_files, {"too_many_files"}),
    "a file above the skill": (spoil(uri="skill://one/../x.md"), {"outside_skill"}),
    "a file above the skill, encoded": (spoil(uri="skill://one/%2e%2e/x.md"), {"outside_skill"}),
    "a file of another skill": (spoil(uri="skill://two/x.md"), {"outside_skill"}),
    "a file of another scheme": (spoil(uri="file:///one/x.md"), {"outside_skill"}),
    "a name with a backslash": (spoil(uri="skill://one/a%5C..%5Cx.md"), {"outside_skill"}),
    "a file twice": (lambda app: app.one.resources.append(app.one.resources[1]), {"duplicate_file"}),
    "no SKILL.md": (lambda app: app.one.resources.pop(0), {"missing_skill_file"}),
    "dynamic": (entry(resources="dynamic"), {"dynamic_skill"}),
    "no resources": (lambda app: app.one.entry.pop("resources"), {"invalid_entry"}),
    "an entry that is a text": (answer("skills/list", Hostile.complete(skills=["one"])), {"invalid_entry"}),
    "another path than the name": (frontmatter(name="two"), {"name_mismatch"}),
    "a name with escape sequences": (frontmatter(name="\x1b[2Jone"), {"invalid_name", "name_mismatch"}),
    "another description": (frontmatter(description="Does another thing."), {"frontmatter_mismatch"}),
    "a field too many": (frontmatter(license="MIT"), {"frontmatter_mismatch"}),
    "deep frontmatter": (frontmatter(x=nest(MAX_DEPTH + 5)), {"invalid_entry"}),
    "deeper than JSON can be read": (frontmatter(x=nest(400)), {"server_error"}),
    "two entries of one skill": (two_entries, {"entry_mismatch"}),
    "an outer entry without the inner files": (incomplete_outer, {"incomplete_entry"}),
    "content that changes at each read": (rotate, {"digest_mismatch"}),
    "contents of another URI": (
        contents(lambda uri, raw: block(uri=f"{uri}x", text=raw.decode())),
        {"invalid_contents"},
    ),
    "no contents": (answer("resources/read", Hostile.complete(contents=[])), {"invalid_contents"}),
    "contents twice": (
        contents(lambda uri, raw: Hostile.complete(contents=[{"uri": uri, "text": raw.decode()}] * 2)),
        {"invalid_contents"},
    ),
    "contents that are no object": (answer("resources/read", Hostile.complete(contents=[1])), {"server_error"}),
    "a blob that is no base64": (contents(lambda uri, _: block(uri=uri, blob="%%%%")), {"invalid_contents"}),
    "a blob with line ends": (
        contents(lambda uri, raw: block(uri=uri, blob=base64.encodebytes(raw * 30).decode())),
        {"invalid_contents"},
    ),
    "a question instead of contents": (
        answer("resources/read", {"resultType": "input_required", "requestState": "x"}),
        {"server_error"},
    ),
    "internal errors": (answer("resources/read", raises(-32603, "\x1b[31mboom")), {"server_error"}),
    "an error for the listing": (answer("skills/list", raises(-32603, "boom")), {"server_error"}),
    "a listing without skills": (answer("skills/list", Hostile.complete()), {"invalid_listing"}),
    "skills that are an object": (answer("skills/list", Hostile.complete(skills={})), {"invalid_listing"}),
    "nothing listed": (answer("skills/list", Hostile.complete(skills=[])), {"unknown_skill"}),
    "a cursor that comes again": (repeated_cursor, {"invalid_listing"}),
    "a cursor that is a number": (
        answer("skills/list", Hostile.complete(skills=[], nextCursor=7)),
        {"invalid_listing"},
    ),
    "an answer without end": (answer("skills/list", Raw(b'{"x": "' + b"x" * 65536, endless=True)), {"too_large"}),
    "a file without end": (answer("resources/read", Raw(b'{"x": "' + b"x" * 65536, endless=True)), {"too_large"}),
    "far too many values": (answer("skills/list", Raw(MANY_VALUES)), {"too_large"}),
    "a compressed answer": (
        answer("skills/list", Raw(PACKED, headers={"content-type": "application/json", "content-encoding": "gzip"})),
        {"server_error"},
    ),
    "no JSON": (answer("skills/list", Raw(b"<html>")), {"server_error"}),
    "a page for people": (answer("skills/list", Raw(b"<p>", headers={"content-type": "text/html"})), {"server_error"}),
    "a login for the listing": (answer("skills/list", Raw(b"", 401)), {"access_denied"}),
    "a login for one file": (answer("resources/read", Raw(b"", 403)), {"access_denied"}),
    "nothing at all": (answer("skills/list", Raw(b"", 202)), {"server_error"}),
    "the extension not declared": (lambda app: setattr(app, "extension", None), {"no_skills_extension"}),
    "a method that is missing": (answer("skills/list", raises(-32601, "?")), {"no_skills_extension"}),
    "no entry for what is listed": (answer("skills/get", raises(-32602, "?")), {"entry_mismatch"}),
    "a file that no entry lists": (hidden_file, {"incomplete_entry"}),
    "a directory without files": (directory(), {"directory_mismatch"}),
    "a directory that leads elsewhere": (directory(FOREIGN), {"outside_skill"}),
    "a directory with what lies deeper": (
        directory({"uri": "skill://one/sub/a.md", "name": "a.md"}),
        {"directory_mismatch"},
    ),
    "a directory with things without URI": (directory({"name": "a.md"}), {"directory_mismatch"}),
    "a directory in itself": (
        directory({"uri": "skill://one/sub", "name": "sub", "mimeType": "inode/directory"}),
        {"directory_mismatch"},
    ),
}


@pytest.mark.parametrize(("lie", "reasons"), list(LIES.values()), ids=LIES)
async def test_a_lie_is_refused_for_what_it_is(lie: Lie, reasons: set[str]) -> None:
    app = Hostile([serve_skill("one", {"sub/a.md": b"a"})])
    lie(app)
    async with running(app) as url:
        assert faults(await verified(url)) == reasons


async def test_without_lies_the_same_server_is_believed() -> None:
    app = Hostile([serve_skill("one", {"sub/a.md": b"a"})], extension={"directoryRead": True})
    async with running(app) as url:
        outcome = await verified(url)
    assert faults(outcome) == set()
    assert outcome.protocol == "2026-07-28"
    asked = [method for method, _ in app.asked]
    assert asked.count("skills/list") == asked.count("skills/get") == 1


async def test_a_lie_about_one_skill_hurts_no_other() -> None:
    app = Hostile([serve_skill("one"), serve_skill("two"), serve_skill("three")])
    app.one.resources[0]["size"] += 1
    app.skills[1].entry["uri"] = 7
    async with running(app) as url:
        outcome = await verified(url)
    assert {result.name: result.sound for result in outcome.results if isinstance(result, RemoteSkill)} == {
        "one": False,
        "two": False,
        "three": True,
    }


async def test_directories_are_never_read_of_a_server_that_does_not_offer_it() -> None:
    app = Hostile([serve_skill("one")], extension={"directoryRead": "yes"})
    async with running(app) as url:
        assert faults(await verified(url)) == set()
    assert "resources/directory/read" not in [method for method, _ in app.asked]


async def test_a_cursor_that_comes_again_is_not_followed_again() -> None:
    cursors = iter("abcabc")
    app = Hostile([], {"skills/list": lambda _: Hostile.complete(skills=[], nextCursor=next(cursors))})
    async with running(app) as url:
        assert faults(await verified(url)) == {"invalid_listing"}
    assert [method for method, _ in app.asked].count("skills/list") == 4


async def test_reading_stops_at_the_bound_and_the_connection_is_closed() -> None:
    app = Hostile([serve_skill("one")], {"resources/read": Raw(b'"' + b"x" * 65536, endless=True)})
    async with running(app) as url:
        await verified(url)
        with anyio.fail_after(10):
            await app.hung_up.wait()
    # What the sockets between hold was sent and never taken.
    assert app.sent < 64 * MIB


async def test_a_failure_of_one_answer_leaves_the_connection_to_the_others() -> None:
    app = Hostile([serve_skill("one", {"cut.md": b"cut", "fine.md": b"fine"})])
    length = {"content-type": "application/json", "content-length": "1000"}

    def read(params: Any) -> Any:
        uri = params["uri"]
        return Raw(b"{", headers=length) if "cut" in uri else app.blob(uri, app.one.contents[uri])

    app.answers["resources/read"] = read
    async with connected(app) as server:
        (skill,) = await list_skills(server)
        checked = await check_files(server, skill)
    assert checked.contents.keys() == {"SKILL.md", "fine.md"}
    assert [(fault.code, fault.path) for fault in checked.diagnostics] == [(Reason.SERVER_ERROR, "skill://one/cut.md")]


async def test_a_server_that_falls_silent_is_given_up() -> None:
    app = Hostile(
        [serve_skill("one")], {"resources/read": Raw(b"", headers={"content-length": "10"} | Raw(b"").headers)}
    )
    never = anyio.Event()
    respond = app._respond

    async def silent(response: Raw, receive: Any, send: Any) -> None:
        if response.headers.get("content-length") == "10":
            await never.wait()
        await respond(response, receive, send)

    app._respond = silent  # type: ignore[method-assign]  # to answer nothing at all is no answer
    async with connected(app, Limits(connect=5, silence=0.2, answer=5)) as server:
        with pytest.raises(RemoteError) as caught:
            await server.read("skill://one/SKILL.md", 100)
        assert caught.value.reason is Reason.TIMED_OUT
        assert await server.entries()
        never.set()


async def test_an_answer_that_drips_is_given_up_in_the_end() -> None:
    app = Hostile([serve_skill("one")], {"resources/read": Raw(b" ", endless=True)})
    async with connected(app, Limits(connect=5, silence=5, answer=0.3)) as server:
        with pytest.raises(RemoteError) as caught:
            await server.read("skill://one/SKILL.md", 16 * MIB)
    assert caught.value.reason in {Reason.TIMED_OUT, Reason.TOO_LARGE}


async def test_answers_may_come_as_events_in_small_parts() -> None:
    app = Hostile([serve_skill("one", {"a.md": b'quoted "\\" text\n' * 20_000})])
    plain = app._response

    def events(scope: dict[str, Any], body: bytes) -> Raw:
        response = plain(scope, body)
        if response.status != 200:
            return response
        data = b": a comment\r\n\r\nevent: message\r\ndata: " + response.body + b"\r\n\r\n"
        return Raw(data, headers={"content-type": "text/event-stream"})

    app._response = events  # type: ignore[method-assign]  # the same answers in another form
    async with running(app) as url:
        assert faults(await verified(url)) == set()


async def test_a_redirect_to_another_host_is_not_followed() -> None:
    elsewhere = Hostile([serve_skill("one")])
    app = Hostile([])
    async with running(elsewhere) as other, running(app) as url:
        target = other.replace("127.0.0.1", "localhost")
        app.always = Raw(b"", 307, headers={"location": target})
        outcome = await verified(url)
    assert faults(outcome) == {"not_mcp"}
    assert elsewhere.asked == []


async def test_the_headers_are_sent_with_every_request() -> None:
    app = Hostile([serve_skill("one")], required_header=(b"authorization", b"Bearer secret"))
    async with running(app) as url:
        assert faults(await verified(url)) == {"access_denied"}
        address = Address.parse(url, ["Authorization: Bearer secret"])
        assert (await verify_server(address, (), lambda _: None)).done


async def test_nobody_there_and_nobody_who_speaks_mcp_are_told_apart() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert faults(await verified(f"http://127.0.0.1:{unused.getsockname()[1]}/mcp")) == {"unreachable"}
    app = Hostile([serve_skill("one")])
    async with running(app) as url:
        assert faults(await verified(url.replace("http:", "https:"))) == {"unreachable"}
        for response in (Raw(b"", 404), Raw(b"<p>", headers={"content-type": "text/html"}), Raw(b"[]"), Raw(b"", 500)):
            app.always = response
            assert faults(await verified(url)) == {"not_mcp"}


async def test_a_server_that_vanishes_ends_the_run() -> None:
    app = Hostile([serve_skill("one", {f"{number}.md": b"" for number in range(100)})])
    async with connected(app) as server:
        (skill,) = await list_skills(server)
        app.leave()
        await app.stopped.wait()
        with pytest.raises(RemoteError) as caught:
            await check_files(server, skill)
    assert caught.value.reason is Reason.UNREACHABLE


async def test_pages_are_followed_up_to_a_limit_and_so_are_skills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.remote.client._MAX_PAGES", 50)
    monkeypatch.setattr("server.remote.client._MAX_ENTRIES", 60)
    turns = iter(range(1000))
    one = serve_skill("one").entry

    def pages(count: int, entries: int) -> Callable[[Any], Any]:
        left = iter(range(count - 1, -1, -1))
        return lambda _: Hostile.complete(
            skills=[one] * entries, **({"nextCursor": f"{next(turns)}"} if next(left) else {})
        )

    app = Hostile([])
    async with connected(app) as server:
        app.answers["skills/list"] = pages(50, 1)
        assert len(await server.entries()) == 50
        for count, entries in ((51, 1), (31, 2)):
            app.answers["skills/list"] = pages(count, entries)
            with pytest.raises(RemoteError) as caught:
                await server.entries()
            assert caught.value.reason is Reason.INVALID_LISTING


async def test_an_update_between_list_and_get_is_no_lie_but_going_on_to_differ_is_told() -> None:
    app = Hostile([serve_skill("one", {"a.md": b"a"})])
    before = json.loads(json.dumps(app.one.entry))
    app.one.add("skill://one/b.md", b"b")
    lists = iter([before, app.one.entry])
    app.answers["skills/list"] = lambda _: app.complete(skills=[next(lists)])
    async with running(app) as url:
        outcome = await verified(url)
        assert faults(outcome) == set()
        assert all(not result.diagnostics for result in outcome.results if isinstance(result, RemoteSkill))
        app.answers["skills/list"] = app.complete(skills=[before])
        (skill,) = (await verified(url)).results
    assert isinstance(skill, RemoteSkill)
    assert skill.sound
    assert [fault.code for fault in skill.diagnostics] == [Reason.ENTRY_MISMATCH]


async def test_a_skill_that_is_not_listed_is_found_by_its_uri() -> None:
    app = Hostile([serve_skill("acme/one")], {"skills/list": Hostile.complete(skills=[])})
    async with running(app) as url:
        assert faults(await verified(url, "skill://acme/one/SKILL.md")) == set()
        assert faults(await verified(url, "one")) == {"unknown_skill"}
        assert faults(await verified(url, "skill://two/SKILL.md")) == {"unknown_skill"}


async def test_an_entry_for_another_skill_than_the_one_asked_for_is_no_answer() -> None:
    app = Hostile([], {"skills/get": Hostile.complete(skill=serve_skill("two").entry)})
    async with running(app) as url:
        assert faults(await verified(url, "skill://one/SKILL.md")) == {"entry_mismatch"}
        app.answers["skills/get"] = Hostile.complete(skill=[])
        assert faults(await verified(url, "skill://one/SKILL.md")) == {"invalid_entry"}
    assert "resources/read" not in [method for method, _ in app.asked]


async def test_a_server_of_the_handshake_era_need_not_declare_what_it_knows() -> None:
    app = Hostile([serve_skill("one")], {"server/discover": raises(-32601, "?")})
    who = {"name": "old", "version": "1"}
    app.answers["initialize"] = {"protocolVersion": "2025-06-18", "capabilities": {"resources": {}}, "serverInfo": who}
    async with running(app) as url:
        outcome = await verified(url)
        assert (faults(outcome), outcome.protocol) == (set(), "2025-06-18")
        app.answers["skills/list"] = raises(-32601, "?")
        assert faults(await verified(url)) == {"no_skills_extension"}
        app.answers["initialize"] = {**app.answers["initialize"], "protocolVersion": "1999-01-01"}
        assert faults(await verified(url)) == {"not_mcp"}


async def test_a_name_that_two_skills_share_means_both_and_a_uri_one() -> None:
    app = Hostile([serve_skill("a/one"), serve_skill("b/one"), serve_skill("c/two")])
    async with running(app) as url:
        assert len((await verified(url, "one")).results) == 2
        assert len((await verified(url, "skill://a/one/SKILL.md")).results) == 1
        assert len((await verified(url, "one", "two", "skill://a/one/SKILL.md")).results) == 3


def bounded(*chunks: bytes, limit: int = 10_000, structure: int = 10_000) -> Exchange:
    exchange = Exchange(limit, structure)
    exchange.begin()
    for chunk in chunks:
        exchange.receive(chunk)
    return exchange


@pytest.mark.parametrize("text", ['{"a": "b\\"c", "\\\\": [1, "\\\\\\""]}', '["\\u0022", "", "x\\ny"]', "[]"])
def test_what_stands_outside_of_strings_is_counted_however_the_text_is_cut(text: str) -> None:
    raw = text.encode()
    outside = len(json.dumps(json.loads(text), separators=(",", ":")))  # spaces are all that is left to tell apart
    whole = bounded(raw)._structure
    assert 0 < whole <= outside + raw.count(b" ")
    for at in range(len(raw)):
        assert bounded(raw[:at], raw[at:])._structure == whole
    assert bounded(*(raw[at : at + 1] for at in range(len(raw))))._structure == whole


def test_the_inside_of_strings_counts_for_the_size_alone() -> None:
    raw = b'{"a":"' + b"[]," * 1000 + b'"}'
    assert bounded(raw)._structure == 7
    for limit, structure, cut in ((3007, 100, raw), (9000, 6, raw), (9000, 100, b'{"a\n":1}')):
        with pytest.raises(httpx2.StreamError):
            bounded(cut, limit=limit, structure=structure)


def test_an_event_stream_that_is_taken_up_again_for_ever_ends() -> None:
    exchange = Exchange(10, 10)
    assert [exchange.begin() for _ in range(30)] == [True] * 20 + [False] * 10


@pytest.mark.parametrize(
    "url",
    ["", "example.com", "ftp://example.com/mcp", "http://", "http:///mcp", "http://a b/", "http://[::1", "http://h:x/"],
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(AddressError):
        Address.parse(url)


@pytest.mark.parametrize("header", ["", "x", ": y", "a b: c", "a: b\r\nc: d", "a: caf\u00e9", "a\n: b"])
def test_what_is_no_header_is_refused(header: str) -> None:
    with pytest.raises(AddressError):
        Address.parse("http://example.com/mcp", [header])


def test_no_secret_is_ever_shown() -> None:
    address = Address.parse("https://me:pass@[::1]:8443/mcp?key=1#x", ["Authorization: Bearer token"])
    assert address.shown == "https://[::1]:8443/mcp"
    assert not {"pass", "key", "token"} & set(repr(address).replace("'", " ").split())
    assert address.headers == (("Authorization", "Bearer token"),)


async def fetched(app: Hostile, root: Path, *, force: bool = False) -> dict[str, Fetched]:
    async with connected(app) as server:
        every = await list_skills(server)
        async with aclosing(fetch_skills(server, every, every, root, force=force)) as fetching:
            return {result.skill.uri: result async for result in fetching}


async def test_a_fetched_folder_equals_its_source_and_verifies_again(
    skills: Path, make_skill: MakeSkill, tmp_path: Path
) -> None:
    varied(make_skill)
    copies = tmp_path / "copies"
    async with http_server(skills) as url:
        done = await skillserve("fetch", url, "--to", copies, "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        Draft202012Validator(ANSWER).validate(result)
        states = {skill["uri"]: skill["state"] for skill in result["skills"]}
        assert states.pop("skill://outer/inner/SKILL.md") == "included"
        assert set(states.values()) == {"written"}
        again = json.loads((await skillserve("fetch", url, "--to", copies, "--json")).stdout)
        assert {skill["state"] for skill in again["skills"]} == {"unchanged", "included"}
    assert tree(copies) == tree(skills)
    async with http_server(copies) as url:
        done = await skillserve("verify", url)
    assert done.returncode == 0
    assert "6 verified, 0 failed" in done.stdout.decode()


async def test_skills_that_share_a_name_are_written_to_their_paths_whichever_is_fetched(tmp_path: Path) -> None:
    app = Hostile([serve_skill("acme/billing/one"), serve_skill("corp/one"), serve_skill("x/two")])
    async with running(app) as url:
        done = await skillserve("fetch", url, "one", "--to", tmp_path)
        assert done.returncode == 2
        assert b"skill://acme/billing/one/SKILL.md, skill://corp/one/SKILL.md" in done.stderr
        assert list(tmp_path.iterdir()) == []
        done = await skillserve("fetch", url, "skill://corp/one/SKILL.md", "two", "--to", tmp_path)
        assert done.returncode == 0
    assert tree(tmp_path).keys() == {"corp/one/SKILL.md", "two/SKILL.md"}
    assert (await fetched(app, tmp_path))["skill://acme/billing/one/SKILL.md"].folder == str(
        tmp_path / "acme" / "billing" / "one"
    )


async def test_no_folder_of_one_run_lies_in_another(tmp_path: Path) -> None:
    app = Hostile(
        [serve_skill("acme/one"), serve_skill("b/one"), serve_skill("x/acme"), serve_skill("acme/one", scheme="y:")]
    )
    found = await fetched(app, tmp_path)
    assert {uri: result.state for uri, result in found.items()} == {
        "skill://acme/one/SKILL.md": "written",
        "skill://b/one/SKILL.md": "written",
        "skill://x/acme/SKILL.md": "written",
        "y:acme/one/SKILL.md": "refused",
    }
    assert tree(tmp_path).keys() == {"acme/one/SKILL.md", "b/one/SKILL.md", "x/acme/SKILL.md"}
    assert codes(found["y:acme/one/SKILL.md"].faults) == {"name_collision"}
    app = Hostile([serve_skill("a/acme"), serve_skill("acme/one"), serve_skill("b/one")])
    found = await fetched(app, tmp_path / "other")
    assert [result.state for result in found.values()] == ["written", "refused", "written"]
    assert codes(found["skill://acme/one/SKILL.md"].faults) == {"name_collision"}


async def test_what_does_not_verify_is_not_written_and_the_rest_is(tmp_path: Path) -> None:
    app = Hostile([serve_skill("one"), serve_skill("two"), serve_skill("outer"), serve_skill("outer/inner")])
    app.one.resources[0]["size"] += 1
    outer = app.skills[2]
    outer.add("skill://outer/inner/SKILL.md", app.skills[3].contents["skill://outer/inner/SKILL.md"])
    outer.add("skill://outer/bad.md", b"x")
    outer.contents["skill://outer/bad.md"] = b"y"
    found = await fetched(app, tmp_path)
    assert {result.skill.name: result.state for result in found.values()} == {
        "one": "refused",
        "two": "written",
        "outer": "refused",
        "inner": "written",
    }
    assert tree(tmp_path).keys() == {"two/SKILL.md", "inner/SKILL.md"}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (("a.md", "A.md"), "name_collision"),
        (("caf%C3%A9", "cafe%CC%81"), "name_collision"),
        ((".git/config",), "unsupported_name"),
        ((ORIGIN_FILE,), "name_collision"),
        (("a" * 300,), "unsupported_name"),
    ],
)
async def test_what_verifies_and_cannot_be_written_is_refused_for_writing_alone(
    tmp_path: Path, files: tuple[str, ...], reason: str
) -> None:
    app = Hostile([serve_skill("one", dict.fromkeys(files, b"x"))])
    (result,) = (await fetched(app, tmp_path)).values()
    assert result.skill.sound
    assert codes(result.faults) == {reason}
    assert list(tmp_path.iterdir()) == []
    async with running(app) as url:
        (skill,) = (await verified(url)).results
    assert isinstance(skill, RemoteSkill)
    assert skill.sound
    assert {fault.code.value for fault in skill.diagnostics} == {reason}


async def test_an_inner_skill_is_not_written_apart_from_the_outer_one_that_could_not_be(tmp_path: Path) -> None:
    app = Hostile([serve_skill("outer"), serve_skill("outer/inner")])
    app.one.add("skill://outer/inner/SKILL.md", app.skills[1].contents["skill://outer/inner/SKILL.md"])
    (tmp_path / "outer").mkdir()
    found = await fetched(app, tmp_path)
    assert {result.state for result in found.values()} == {"refused"}
    assert tree(tmp_path) == {}
    assert {r.skill.name: r.state for r in (await fetched(app, tmp_path, force=True)).values()} == {
        "outer": "replaced",
        "inner": "included",
    }


async def test_the_origin_is_recorded_without_credentials_and_edits_are_kept(tmp_path: Path) -> None:
    app = Hostile([serve_skill("one", {"a.md": b"a"})])
    async with running(app) as url:
        secret = url.replace("http://", "http://me:pass@") + "?key=secret"
        assert (await skillserve("fetch", secret, "--to", tmp_path, "--header", "X-Key: secret")).returncode == 0
        record = (tmp_path / "one" / ORIGIN_FILE).read_text(encoding="utf-8")
        assert json.loads(record)["server"] == url
        assert "pass" not in record
        assert "secret" not in record
        (tmp_path / "one" / "a.md").write_bytes(b"mine")
        done = await skillserve("fetch", url, "one", "--to", tmp_path, "--json")
        assert done.returncode == 1
        (skill,) = json.loads(done.stdout)["skills"]
        assert (skill["verified"], skill["state"], skill["folder"]) == (True, "refused", None)
        assert skill["diagnostics"][0]["code"] == "edited_copy"
        assert "a.md" in skill["diagnostics"][0]["message"]
        assert (await skillserve("fetch", url, "one", "--to", tmp_path, "--force")).returncode == 0
    assert (tmp_path / "one" / "a.md").read_bytes() == b"a"


async def test_verify_prints_a_line_for_each_skill_a_summary_and_the_documented_object() -> None:
    app = Hostile([serve_skill("one", {"a.md": b"a"}), serve_skill("two")])
    app.skills[1].entry["frontmatter"]["license"] = "MIT"
    async with running(app) as url:
        done = await skillserve("verify", url)
        assert done.returncode == 1
        lines = done.stdout.decode().splitlines()
        size = len(app.one.contents[app.one.uri]) + 1
        assert lines[0] == f"ok one (2 files, {size} bytes)"
        assert lines[1] == "failed two"
        assert lines[2].startswith("  skill://two/SKILL.md: error[frontmatter_mismatch]: ")
        assert lines[3] == f"2 skills of {url}: 1 verified, 1 failed"
        assert done.stderr == b""
        done = await skillserve("verify", url, "one", "--json")
        assert done.returncode == 0
        result = json.loads(done.stdout)
        Draft202012Validator(ANSWER).validate(result)
        assert result["server"] == url
        assert result["protocol"] == "2026-07-28"
        assert result["skills"] == [
            {"uri": app.one.uri, "name": "one", "verified": True, "files": 2, "bytes": size, "diagnostics": []}
        ]


async def test_nothing_that_a_server_sends_reaches_the_terminal_as_it_is() -> None:
    evil = "\x1b]0;owned\x07\u202e\x9b2J\n"
    one, two, three = serve_skill("one"), serve_skill("two"), serve_skill("three")
    three.entry["frontmatter"][evil * 1000] = evil * 1000
    one.entry["frontmatter"]["name"] = two.entry["uri"] = evil * 100_000
    app = Hostile([one, two, three, serve_skill("four")], {"resources/read": raises(-32603, evil)})
    async with running(app) as url:
        for flags in ((), ("--json",)):
            done = await skillserve("verify", url, *flags)
            assert done.returncode == 1
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set((done.stdout + done.stderr).decode())
            assert b"Traceback" not in done.stderr
            assert len(done.stdout + done.stderr) < 20_000
        app.answers["skills/list"] = raises(-32603, evil)
        done = await skillserve("verify", url)
    assert done.stderr.decode().isprintable() or done.stderr.count(b"\n") == 1
    assert b"\x1b" not in done.stderr


async def test_exit_codes_tell_no_from_wrong_use(tmp_path: Path) -> None:
    app = Hostile([serve_skill("one")])
    async with running(app) as url:
        for arguments, code in (
            (("verify", url), 0),
            (("verify", url, "two"), 1),
            (("verify", "nonsense"), 2),
            (("verify", url, "--header", "nonsense"), 2),
            (("fetch", url, "two", "--to", tmp_path / "none"), 1),
        ):
            done = await skillserve(*arguments)
            assert done.returncode == code, (arguments, done.stderr)
            assert b"Traceback" not in done.stderr
    assert not (tmp_path / "none").exists()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        done = await skillserve("verify", f"http://127.0.0.1:{unused.getsockname()[1]}/mcp", "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    Draft202012Validator(ANSWER).validate(result)
    assert (result["protocol"], result["skills"]) == (None, [])
    assert result["diagnostics"][0]["code"] == "unreachable"


def test_other_commands_start_without_the_client(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    code = (
        "import sys; from server.cli import app; sys.argv = ['skillserve', 'status', sys.argv[1]];"
        "app(standalone_mode=False);"
        "loaded = {'mcp', 'mcp.client', 'httpx2', 'server.remote.client', 'server.remote.address'} & set(sys.modules);"
        "sys.exit(f'loaded: {sorted(loaded)}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(skills)], cwd=REPOSITORY, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"one" in done.stdout


async def test_a_proxy_that_the_environment_names_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    assert Address.parse("http://example.com/mcp").proxy is None
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:3128")
    monkeypatch.setenv("no_proxy", "localhost")
    assert Address.parse("http://example.com/mcp").proxy == "http://127.0.0.1:3128"
    assert Address.parse("https://example.com/mcp").proxy is None
    assert Address.parse("http://localhost/mcp").proxy is None
