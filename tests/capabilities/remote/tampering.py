"""What a server may tamper about, and how it is found out."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from typing import Any

from skills_core.format.yaml12 import MAX_DEPTH
from tests.capabilities.remote.helpers import MIB
from tests.capabilities.remote.hostile import Hostile, Raw, RpcError, listed, serve_skill, skill_md

Tampering = Callable[[Hostile], object]


def spoil(**changes: Any) -> Tampering:
    """Change the entry's second file."""
    return lambda app: app.one.resources[1].update(changes)


def entry(**changes: Any) -> Tampering:
    return lambda app: app.one.entry.update(changes)


def frontmatter(**changes: Any) -> Tampering:
    return lambda app: app.one.entry["frontmatter"].update(changes)


def answer(method: str, value: Any) -> Tampering:
    return lambda app: app.answers.update({method: value})


def contents(make: Callable[[str, bytes], Any]) -> Tampering:
    """Answer reads with what `make` makes of the URI and the true bytes."""

    def tamper(app: Hostile) -> None:
        app.answers["resources/read"] = lambda params: make(params["uri"], app.one.contents[params["uri"]])

    return tamper


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


def directory(*children: dict[str, Any]) -> Tampering:
    def tamper(app: Hostile) -> None:
        app.extension = {"directoryRead": True}
        app.answers["resources/directory/read"] = {"resultType": "complete", "resources": list(children)}

    return tamper


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

TAMPERINGS: dict[str, tuple[Tampering, set[str]]] = {
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
