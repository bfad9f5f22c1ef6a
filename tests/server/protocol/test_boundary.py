"""Attacks on the boundary by clients: every way in which a path, a URI or a name comes in, with every known trick.

The rule for all: the answer is an error with the code for invalid parameters (for a tool, an error result), and no
answer whatsoever holds a byte of the secrets that lie in and around the skill's folder.
"""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from tests.conftest import MakeSkill
from tests.core.disk.test_boundary import MARKER, Swapper
from tests.server.sessions import Connect, ConnectHosted, Session

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs links and special files in the file system")

TEMPLATE = "skill://{+skill}/{+path}"

UPWARDS = [
    *("..", "../", "../secret.md", "../../secret.md", "./../secret.md", "inner/../../secret.md"),
    *("../excluded/secret.md",),
    *("%2e%2e/secret.md", "%2E%2e%2fsecret.md", "..%2fsecret.md", "%252e%252e/secret.md", "%252e%252e%252fsecret.md"),
    *("..\\secret.md", "..%5csecret.md", "inner\\data.md", "inner%5cdata.md", "inner%2fdata.md", "inner/../notes.md"),
    *("..\0/secret.md", "..%00/secret.md", "../secret.md\0", "notes.md\0", "notes.md%00", "notes.md\0.txt", "\0"),
    *("%00",),
]
ABSOLUTE = [
    *("{secret}", "/{secret}", "/etc/passwd", "//etc/passwd", "%2fetc%2fpasswd", "~/secret.md", "$HOME/secret.md"),
    *("C:\\secret.md", "C:/secret.md", "C:secret.md", "C%3a%5csecret.md", "\\\\host\\share\\secret.md", "\\\\?\\C:\\x"),
    *("/proc/self/environ", "/dev/zero", "/dev/stdin"),
]
SCHEMES = [
    *("file://{secret}", "file:///etc/passwd", "file:/etc/passwd", "FILE:///etc/passwd", "file://localhost/etc/passwd"),
    *("http://127.0.0.1/secret.md", "https://one/notes.md", "data:text/plain,x", "jar:file:///x!/y"),
    *("ui://one/notes.md",),
    *("SKILL://one/notes.md", "Skill://one/notes.md", "skill:one/notes.md", "skill:/one/notes.md"),
    *("skill:///one/notes.md", "skill:////one/notes.md", "skill://one:80/notes.md", "skill://user@one/notes.md"),
    *("skill://one/../excluded/secret.md", "skill://one@excluded/secret.md", "skill://skill://one/notes.md"),
    *("skill://", "skill:", "://", "", " skill://one/notes.md", "\nskill://one/notes.md", "skill://one\n/notes.md"),
]
SPELLINGS = [
    *("notes.md/", "notes.md//", "//notes.md", "inner//data.md", "inner/./data.md", "/notes.md", "notes.md/."),
    *("inner/",),
    *("notes.md?", "notes.md?x", "notes.md#", "notes.md#x", "notes.md;x", " notes.md", "notes.md ", "notes.md.", "*"),
    *("notes.md::$DATA", "notes.md%", "notes.md%2", "notes.md%zz", "n%6ftes.md%20", "NOTES.MD.", "Inner//data.md"),
    *("skill.md/", "../ONE/notes.md", "notes", "notes.m?", "n\u043etes.md", "not\u200bes.md", "\ufeffnotes.md"),
]
UNICODE = [
    *("\uff0e\uff0e\uff0fsecret.md", "\uff0e\uff0e/secret.md", "\u2025/secret.md", "..\u2215secret.md"),
    *("..\u2044secret.md",),
    *("%c0%ae%c0%ae/secret.md", "%c0%ae%c0%ae%c0%afsecret.md", "..%c0%afsecret.md", "%e0%80%ae%e0%80%ae/secret.md"),
    *("%uff0e%uff0e/secret.md", "%ff%fe", "%ed%a0%80", "cafe\u0301.md", "cafe%cc%81.md", "CAFE\u0301.md", "caf%e9.md"),
]
PLANTED = [
    *("link.md", "chain.md", "loop", "self", "up/secret.md", "up/one/notes.md", "out/secret.md", "inside.md"),
    *("process",),
    *("fifo", "socket", ".hidden", ".git/config", "node_modules/x.md", "inner/.hidden", "link.md/x", "fifo/x"),
    *("LINK.md", "UP/secret.md", "Out/secret.md", ".HIDDEN", ".Git/config", "Node_Modules/x.md", "Inner/.hidden"),
]
OTHER_SKILLS = [
    *("excluded", "broken", "excluded/SKILL.md", "excluded/secret.md", "broken/SKILL.md", ".hidden-skill/SKILL.md"),
    *(
        "Excluded",
        "EXCLUDED/SKILL.md",
        "Excluded/secret.md",
        "Broken/skill.md",
        ".Hidden-Skill/SKILL.md",
        "ONE/notes.md",
    ),
]
HALVES = ["\ud800", "no\udcfftes.md", "..\udcc0\udcafsecret.md", "\udcc0\udcae\udcc0\udcae/secret.md"]
LONG = ["../" * 10_000 + "etc/passwd", "a/" * 10_000 + "x", "%2e%2e/" * 10_000, "x" * 1_000_000, "\0" * 100_000]

ATTACKS: dict[str, list[str]] = {
    "upwards": UPWARDS,
    "absolute": ABSOLUTE,
    "other schemes": SCHEMES,
    "other spellings": SPELLINGS,
    "other characters": UNICODE,
    "planted on the disk": PLANTED,
    "skills that are not active": OTHER_SKILLS,
    "half characters": HALVES,
    "very long": LONG,
}
ON_THE_WIRE = [text for attacks in ATTACKS.values() for text in attacks if attacks not in (HALVES, LONG)]


class Params(types.RequestParams):
    model_config = ConfigDict(extra="allow")


class Result(types.Result):
    model_config = ConfigDict(extra="allow")


async def ask(session: Session, method: str, **params: Any) -> dict[str, Any]:
    request: Any = types.Request(method=method, params=Params.model_validate(params))
    answer: dict[str, Any] = (await session.client.session.send_request(request, Result)).model_dump(by_alias=True)
    return answer


@dataclass(frozen=True)
class Route:
    """One way in. `reads` tells that a result which is no error would hold something that was asked for."""

    request: Callable[[Session, str], Awaitable[dict[str, Any]]]
    reads: bool = True


def tool(name: str, argument: str, **others: str) -> Route:
    return Route(lambda session, text: ask(session, "tools/call", name=name, arguments={argument: text, **others}))


def completion(ref: dict[str, str] | None, argument: dict[str, str] | None, context: str | None = None) -> Route:
    """Make a route by a completion; the attack stands in for what is not given, and for `context` too."""

    async def request(session: Session, text: str) -> dict[str, Any]:
        params: dict[str, Any] = {"ref": ref or {"type": "ref/resource", "uri": text}}
        params["argument"] = argument or {"name": "path", "value": text}
        if context is not None:
            params["context"] = {"arguments": {context: text}}
        return await ask(session, "completion/complete", **params)

    return Route(request, reads=False)


BY_URI: dict[str, Route] = {
    "read": Route(lambda session, text: ask(session, "resources/read", uri=text)),
    "entry": Route(lambda session, text: ask(session, "skills/get", uri=text)),
    "directory": Route(lambda session, text: ask(session, "resources/directory/read", uri=text)),
    "subscribe": Route(lambda session, text: ask(session, "resources/subscribe", uri=text), reads=False),
    "unsubscribe": Route(lambda session, text: ask(session, "resources/unsubscribe", uri=text), reads=False),
    "complete template": completion(None, {"name": "path", "value": ""}),
}
BY_NAME: dict[str, Route] = {
    "file by path": tool("read_skill_file", "path", skill="one"),
    "file of skill": tool("read_skill_file", "skill", path="secret.md"),
    "activate": tool("activate_skill", "name"),
    "prompt": Route(lambda session, text: ask(session, "prompts/get", name=text)),
    "tool": Route(lambda session, text: ask(session, "tools/call", name=text)),
    "complete prompt": Route(
        lambda session, text: ask(
            session,
            "completion/complete",
            ref={"type": "ref/prompt", "name": text},
            argument={"name": "x", "value": ""},
        )
    ),
    "complete value": completion({"type": "ref/resource", "uri": TEMPLATE}, None),
    "complete skill": completion({"type": "ref/resource", "uri": TEMPLATE}, {"name": "path", "value": ""}, "skill"),
}


def everything_in(answer: object) -> str:
    """Return an answer as text, with what its blobs hold."""
    text = json.dumps(answer, default=str)
    blobs: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, dict):
            blobs.extend(value[key] for key in ("blob", "data") if isinstance(value.get(key), str))
            for each in value.values():
                collect(each)
        elif isinstance(value, list):
            for each in value:
                collect(each)

    collect(answer)
    return text + "".join(base64.b64decode(blob).decode("latin-1") for blob in blobs)


async def fault_of(session: Session, route: Route, text: str) -> str | None:
    """Attack on one route; return what is wrong with the answer, None where the rule holds."""
    try:
        answer = await route.request(session, text)
    except MCPError as error:
        if MARKER in f"{error.message} {error.data}":
            return f"the error tells the secret: {error.message[:100]}"
        return None if error.code == types.INVALID_PARAMS else f"code {error.code}: {error.message[:100]}"
    if MARKER in everything_in(answer):
        return "the answer holds the secret"
    values = answer.get("completion", {}).get("values", [])
    if any(".." in value or "secret" in value or "excluded" in value for value in values):
        return f"completed to {values}"
    refused = answer.get("isError") is True or not route.reads
    return None if refused else f"answered with {json.dumps(answer)[:200]}"


@pytest.fixture
def ground(skills: Path, tmp_path: Path, make_skill: MakeSkill) -> Path:
    """Make a skill `one` with secrets all around it; return the path of one that lies above."""
    files = {"notes.md": b"notes", "inner/data.md": b"data", "caf\u00e9.md": b"coffee"}
    hidden = {name: MARKER.encode() for name in (".hidden", ".git/config", "node_modules/x.md", "inner/.hidden")}
    folder = make_skill("one", files={**files, **hidden})
    secret = tmp_path / "secret.md"
    for place in (secret, skills / "secret.md"):
        place.write_text(MARKER, encoding="utf-8")
    gate = "when:\n  requires:\n    env: [SKILLSERVE_NO_SUCH_VARIABLE]"
    secrets = {"secret.md": MARKER.encode()}
    make_skill("excluded", description=MARKER, body=MARKER, fields=gate, files=secrets)
    make_skill("broken", description="''", body=MARKER, fields=f"license: {MARKER}", files=secrets)
    make_skill(".hidden-skill", description=MARKER, body=MARKER, files=secrets)
    links: dict[str, str | Path] = {
        "link.md": secret,
        "chain.md": "link.md",
        "loop": "loop2",
        "loop2": "loop",
        "self": "self",
        "up": "..",
    }
    links |= {"out": tmp_path, "inside.md": "notes.md", "process": "/proc/self/environ"}
    for name, target in links.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "fifo")
    here = Path.cwd()
    os.chdir(folder)  # the length of a socket's path is limited
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
    finally:
        os.chdir(here)
    return secret


def short(text: str) -> str:
    return ascii(text[:40])[1:-1] or "nothing"


@pytest.mark.parametrize("attacks", ATTACKS.values(), ids=ATTACKS.keys())
async def test_no_trick_in_a_path_uri_or_name_gets_anything_out(
    attacks: list[str], ground: Path, skills: Path, in_memory: ConnectHosted
) -> None:
    faults = []
    async with in_memory(skills, watch=False) as session:
        with anyio.fail_after(60):
            for attack in attacks:
                text = attack.replace("{secret}", str(ground))
                spellings = {text: BY_URI | BY_NAME, f"skill://one/{text}": BY_URI | BY_NAME, f"skill://{text}": BY_URI}
                for spelling, routes in spellings.items():
                    for name, route in routes.items():
                        if fault := await fault_of(session, route, spelling):
                            faults.append((name, short(spelling), fault))
            read = await ask(session, "resources/read", uri="skill://one/notes.md")
    assert faults == []
    assert read["contents"][0]["text"] == "notes"


@pytest.mark.every_way
async def test_no_trick_gets_anything_out_over_any_transport_in_any_era(connect: Connect, ground: Path) -> None:
    faults = []
    async with connect() as session:
        # There are no subscriptions of this kind in the modern era; each attack takes the main road and another.
        routes = {n: r for n, r in (BY_URI | BY_NAME).items() if session.era == "handshake" or "subscribe" not in n}
        names = list(routes)
        with anyio.fail_after(60):
            for number, attack in enumerate(ON_THE_WIRE):
                text = attack.replace("{secret}", str(ground))
                for name in {"read", names[number % len(names)]}:
                    spelling = f"skill://one/{text}" if name in BY_URI and "://" not in text else text
                    if fault := await fault_of(session, routes[name], spelling):
                        faults.append((name, short(spelling), fault))
            read = await ask(session, "resources/read", uri="skill://one/notes.md")
    assert faults == []
    assert read["contents"][0]["text"] == "notes"


async def test_needless_spellings_name_the_file_that_they_spell(
    ground: Path, skills: Path, in_memory: ConnectHosted
) -> None:
    assert ground.exists()
    async with in_memory(skills, watch=False) as session:
        # Each file is asked for once: only what comes from the disk is free of the calls that a test forbids.
        for uri, text in (("skill://%6Fne/n%6Ftes%2emd", "notes"), ("skill://one/caf%c3%A9.md", "coffee")):
            assert (await ask(session, "resources/read", uri=uri))["contents"][0]["text"] == text
        for path in ("./inner/data.md", "Inner/DATA.md"):
            arguments = {"skill": "one", "path": path}
            answer = await ask(session, "tools/call", name="read_skill_file", arguments=arguments)
            assert answer["content"][0]["text"] == "data"
        for uri, right in (
            ("skill://one/NOTES.MD", "skill://one/notes.md"),
            ("skill://one/CAF%c3%89.md", "skill://one/caf%C3%A9.md"),
            ("skill://one/skill.MD", "skill://one/SKILL.md"),
        ):
            assert (await ask(session, "resources/read", uri=uri))["contents"][0]["uri"] == right


async def test_what_is_no_part_of_an_active_skill_is_in_no_list_and_no_search(
    ground: Path, skills: Path, in_memory: ConnectHosted
) -> None:
    assert ground.exists()
    async with in_memory(skills, watch=False) as session:
        search = await ask(session, "tools/call", name="find_skills", arguments={"query": MARKER, "limit": 100})
        found = [
            await ask(session, method)
            for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list")
        ]
        found += [
            await ask(session, "resources/directory/read", uri=f"skill://{folder}") for folder in ("one", "one/inner")
        ]
    text = everything_in(found)
    assert search["structuredContent"]["matches"] == []
    for word in (MARKER, "excluded", "broken", "hidden", "secret", "link.md", "fifo", "socket", "process", "loop"):
        assert word not in text


READS: list[tuple[str, dict[str, Any]]] = [
    ("resources/read", {"uri": "skill://one/inner/data.md"}),
    ("resources/read", {"uri": "skill://one/SKILL.md"}),
    ("skills/get", {"uri": "skill://one/SKILL.md"}),
    ("tools/call", {"name": "read_skill_file", "arguments": {"skill": "one", "path": "inner/data.md"}}),
    ("tools/call", {"name": "activate_skill", "arguments": {"name": "one", "force": True}}),
    ("tools/list", {}),
    ("prompts/list", {}),
]
ROUNDS = 10


async def test_readers_of_a_place_that_is_swapped_for_a_link_all_the_time_get_plain_bytes_or_an_error(
    connect: Connect, make_skill: MakeSkill, skills: Path, tmp_path: Path
) -> None:
    plain = make_skill("one", files={"inner/data.md": b"plain"})
    words = (plain / "SKILL.md").read_text(encoding="utf-8")
    make_skill("../secret/one", description=MARKER, body=MARKER, files={"inner/data.md": MARKER.encode()})
    answers: list[str] = []
    codes: set[int] = set()

    async def read(session: Session, method: str, params: dict[str, Any]) -> None:
        for _ in range(ROUNDS):
            try:
                answer = await ask(session, method, **params)
            except MCPError as error:
                codes.add(error.code)
                answers.append(f"{error.message} {error.data}")
            else:
                answers.append(everything_in(answer))
                assert {contents["text"] for contents in answer.get("contents", [])} <= {"plain", words}

    async with connect() as session:
        for place in ("one", "one/SKILL.md", "one/inner", "one/inner/data.md"):
            swapper = Swapper(skills / place, tmp_path / "secret" / place, tmp_path / "aside", times=10**9)
            swapper.start()
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    for method, params in READS:
                        tasks.start_soon(read, session, method, params)
                swapper.stop()
                await _until_served(session, "skill://one/inner/data.md", "plain")
            assert swapper.swapped > 0
    assert len(answers) == 4 * ROUNDS * len(READS)
    assert codes <= {types.INVALID_PARAMS}
    assert [answer for answer in answers if MARKER in answer] == []


async def _until_served(session: Session, uri: str, text: str) -> None:
    """Wait until a resource is served again; each time it is not, a change of the list is yet to be announced."""
    while True:
        session.told.clear()
        try:
            assert (await ask(session, "resources/read", uri=uri))["contents"][0]["text"] == text
        except MCPError:
            await session.until_told("resources")
        else:
            return
