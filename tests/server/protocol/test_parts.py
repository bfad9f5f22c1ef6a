"""Results that a client would cut: they are handed over in parts that say what is missing and how to read on."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import write_skill
from tests.server.sessions import Connect, ConnectHosted, Session, texts_of
from tests.thoroughness import examples

CALL = re.compile(r'call read_skill_file with skill ("[^"]+"), path ("[^"]+"), offset (\d+)\.')
LINES = "\n".join(f"@{number:07d} Follow this step with “care”." for number in range(0, 120_000, 42))


def text_of(result: dict[str, Any]) -> str:
    return "".join(texts_of(result))


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def as_json(result: dict[str, Any]) -> str:
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"))


CODEX = "codex-mcp-client"
LIMITS: dict[str, tuple[str, str | None, int, Callable[[dict[str, Any]], int]]] = {
    "cline": ("@cline/core", None, 8000, lambda result: utf16(as_json(result))),
    "codex": (CODEX, None, 11_984, lambda result: len(text_of(result).encode())),
    "codex-new": (CODEX, "gpt-9", 11_984, lambda result: len(text_of(result).encode())),
    "codex-5.5": (CODEX, "gpt-5.5", 47_984, lambda result: len(text_of(result).encode())),
    "codex-sol": (CODEX, "gpt-6-sol", 40_000, lambda result: len(as_json(result).encode())),
    "fast-agent": ("fast-agent-mcp", None, 16_000, lambda result: len(text_of(result).encode())),
    "copilot": ("copilot-cli", None, 20_480, lambda result: len(text_of(result).encode())),
    "qwen": ("qwen-cli-mcp-client-skills", None, 28_000, lambda result: utf16(text_of(result))),
    "gemini": ("gemini-cli-mcp-client", None, 40_000, lambda result: utf16(text_of(result))),
    "opencode": ("opencode", None, 51_200, lambda result: len(text_of(result).encode())),
}
"""Clients with the model that they name, their limit, and how they count."""

each_limit = pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS.keys())


class Reader:
    """A model that reads on as the answers say; it keeps all results."""

    def __init__(self, session: Session, model: str | None = None) -> None:
        self._session = session
        self._meta: Any = {"x-codex-turn-metadata": {"model": model}} if model else None
        self.results: list[dict[str, Any]] = []

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        found = await self._session.client.call_tool(tool, arguments, meta=self._meta)
        result: dict[str, Any] = found.model_dump(by_alias=True, exclude_none=True, mode="json")
        result.pop("resultType", None)
        self.results.append(result)
        return result

    async def read_on(self, result: dict[str, Any]) -> str:
        """Read on from an answer to the end; return what was read."""
        read = ""
        while found := CALL.search(text_of(result)):
            skill, path, offset = json.loads(found[1]), json.loads(found[2]), int(found[3])
            result = await self.call("read_skill_file", skill=skill, path=path, offset=offset)
            assert not result["isError"], result
            read += texts_of(result)[0]
        assert "Here the file ends." in text_of(result)
        return read


def shown_of(body: str, beginning: str) -> str:
    """Return the body's characters in the beginning of an activation, by its own count."""
    found = re.search(r"only the first (\d+) of the (\d+) characters", beginning)
    assert found is not None, beginning[-500:]
    assert int(found[2]) == len(body)
    return body[: int(found[1])]


@each_limit
async def test_a_long_skill_comes_in_parts_that_this_client_shows_whole(
    in_memory: ConnectHosted, skills: Path, limit: tuple[str, str | None, int, Callable[[dict[str, Any]], int]]
) -> None:
    client, model, most, size = limit
    write_skill(skills, "long", body=LINES, files={f"references/{number}.md": b"x" for number in range(150)})
    # Gemini CLI receives a link if texts are adapted to it.
    async with in_memory(skills, client_name=client, adapt=not client.startswith("gemini")) as session:
        reader = Reader(session, model)
        result = await reader.call("activate_skill", name="long", message="Do it now.")
        text, request = texts_of(result)
        read = await reader.read_on(result)
    shown = shown_of(LINES, text)
    assert shown + read.rstrip("\n") == LINES
    assert shown in text
    assert "<file>" in text
    assert text.endswith("</skill_content>")
    assert "Do it now." in request
    assert [size(each) for each in reader.results if size(each) > most] == []
    # Parts are not smaller than they have to be.
    assert all(size(each) > most * 0.8 for each in reader.results[:-1])
    assert result["_meta"]["skillserve/skill"]["rest"] == len(read_file(skills, "long")) - len(read)


def read_file(skills: Path, skill: str) -> str:
    return (skills / skill / "SKILL.md").read_bytes().decode()


@pytest.mark.parametrize("client", ["claude-code", "somebody", "continue-cli-client"])
async def test_clients_that_pass_on_more_or_have_no_known_limit_get_it_whole(
    in_memory: ConnectHosted, skills: Path, client: str
) -> None:
    write_skill(skills, "long", body=LINES)
    async with in_memory(skills, client_name=client) as session:
        reader = Reader(session)
        result = await reader.call("activate_skill", name="long")
        file = await reader.call("read_skill_file", skill="long", path="SKILL.md")
    assert LINES in text_of(result)
    assert result["_meta"]["skillserve/skill"].keys() == {"name", "uri", "digest", "unchanged"}
    assert texts_of(file) == [read_file(skills, "long")]


async def test_claude_code_is_handed_over_half_a_million_characters_in_parts(
    in_memory: ConnectHosted, skills: Path
) -> None:
    write_skill(skills, "huge", body=LINES * 5)
    async with in_memory(skills, client_name="claude-code") as session:
        reader = Reader(session)
        result = await reader.call("activate_skill", name="huge")
        read = await reader.read_on(result)
    assert shown_of(LINES * 5, result["content"][0]["text"]) + read.rstrip("\n") == LINES * 5
    assert max(utf16(text_of(each)) for each in reader.results) < 500_000


async def test_more_lines_than_opencode_shows_come_in_parts(in_memory: ConnectHosted, skills: Path) -> None:
    body = "\n".join(map(str, range(5000)))
    write_skill(skills, "lines", body=body)
    async with in_memory(skills, client_name="opencode") as session:
        reader = Reader(session)
        result = await reader.call("activate_skill", name="lines")
        assert shown_of(body, text_of(result)) + (await reader.read_on(result)).rstrip("\n") == body
    assert max(text_of(each).count("\n") for each in reader.results) < 2000


async def test_one_very_long_line_comes_in_parts(in_memory: ConnectHosted, skills: Path) -> None:
    body = "漢字 " * 30_000
    write_skill(skills, "line", body=body)
    async with in_memory(skills, client_name="opencode") as session:
        reader = Reader(session)
        result = await reader.call("activate_skill", name="line")
        assert shown_of(body.strip(), text_of(result)) + (await reader.read_on(result)).rstrip() == body.strip()


@pytest.mark.parametrize("path", ["AGENTS.md", ".skills/notes.md", ".skills/deep/notes.md", "b/other/SKILL.md"])
@pytest.mark.parametrize(("mark", "end"), [("", "\n"), ("\ufeff", "\r\n")])
async def test_every_kind_of_skill_is_read_on_exactly(
    in_memory: ConnectHosted, skills: Path, path: str, mark: str, end: str
) -> None:
    front = "" if path == "AGENTS.md" else "---\nname: notes\ndescription: d: e\n---\n\n"
    file = skills / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes((mark + front + LINES + "\n\n").replace("\n", end).encode())
    async with in_memory(skills, client_name="@cline/core") as session:
        reader = Reader(session)
        result = await reader.call("activate_skill", name="agents" if path == "AGENTS.md" else "notes")
        body = LINES.replace("\n", end)
        assert shown_of(body, text_of(result)) + (await reader.read_on(result)).rstrip() == body


async def test_a_body_with_nul_is_read_on_too(in_memory: ConnectHosted, skills: Path) -> None:
    folder = write_skill(skills, "nul")
    body = "a\0b\n" + LINES
    (folder / "SKILL.md").write_bytes(b"---\nname: nul\ndescription: d\n---\n" + body.encode())
    async with in_memory(skills, client_name="@cline/core") as session:
        reader = Reader(session)
        result = await reader.call("activate_skill", name="nul")
        assert shown_of(body, text_of(result)) + await reader.read_on(result) == body


async def test_what_is_asked_for_again_says_that_there_is_a_rest(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "long", body=LINES)
    write_skill(skills, "short")
    rest = "You were given only its beginning: if you have not read the rest yet, do so as that text says."
    # Qwen Code is not known to drop what it was given.
    async with in_memory(skills, client_name="qwen-cli-mcp-client-skills") as session:
        first = await session.activate("long")
        receipt = re.findall(r'receipt="([0-9a-f]{12})"', first)[0]
        again = await session.activate("long")
        assert "has not changed since you loaded it" in again
        assert again.endswith(rest)
        assert await session.activate("long") == first
        assert (await session.activate("long", have=receipt)).endswith(rest)
        assert await session.activate("long") == first
        await session.activate("short")
        assert rest not in await session.activate("short")


async def test_a_change_between_two_parts_is_told(in_memory: ConnectHosted, skills: Path) -> None:
    folder = write_skill(skills, "long", body=LINES)
    write_skill(skills, "other")
    async with in_memory(skills, client_name="copilot-cli") as session:
        reader = Reader(session)
        first = text_of(await reader.call("activate_skill", name="long"))
        receipt = re.findall(r'receipt="([0-9a-f]{12})"', first)[0]
        found = CALL.search(first)
        assert found is not None
        before = await reader.call("read_skill_file", skill="long", path="SKILL.md", offset=int(found[3]))
        assert receipt in texts_of(before)[1]
        write_skill(skills, "long", body="New.\n" + LINES)
        await session.host.reload()
        after = await reader.call("read_skill_file", skill="long", path="SKILL.md", offset=int(found[3]))
        _, note, news = texts_of(after)
        assert receipt not in note
        assert re.search(r"\([0-9a-f]{12}\)", note)
        assert "which you loaded, has changed: load it again" in news
        shutil.rmtree(folder)
        await session.host.reload()
        gone = await reader.call("read_skill_file", skill="long", path="SKILL.md", offset=int(found[3]))
        assert gone["isError"]


async def test_news_have_room_in_a_part(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "long", body=LINES)
    async with in_memory(skills, client_name="@cline/core") as session:
        reader = Reader(session)
        await reader.call("activate_skill", name="long")
        for number in range(40):
            write_skill(skills, f"new-skill-number-{number}", description=f'Counts "{number}" things. ' * 9)
        await session.host.reload()
        second = await reader.call("read_skill_file", skill="long", path="SKILL.md", offset=5000)
        text, note, news = texts_of(second)
        third = await reader.call("read_skill_file", skill="long", path="SKILL.md", offset=5000)
    assert LINES.find(text) > 4000
    assert "The rest is missing" in note
    assert news.startswith("The list of skills has changed")
    assert "Left out by the server" not in news
    # Without news, a part is longer.
    assert len(texts_of(third)[0]) > len(text) + 1000
    assert max(utf16(as_json(each)) for each in reader.results) < 8000


async def test_a_long_message_leaves_room_to_the_skill(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "long", body=LINES)
    async with in_memory(skills, client_name="@cline/core") as session:
        reader = Reader(session)
        result = await reader.call("activate_skill", name="long", message="please " * 5000)
    text, request = texts_of(result)
    assert len(shown_of(LINES, text)) > 3000
    assert "of 35000 characters; the whole message is in your call.]" in request
    assert request.endswith("</user_request>")
    assert utf16(as_json(result)) < 8000


class TestReadSkillFile:
    """The arguments `offset` and `limit`."""

    @pytest.fixture
    def file(self, skills: Path) -> str:
        text = "".join(f"{number:04d}é\r\n" for number in range(1000))
        files = {
            "a.txt": text.encode(),
            "b.bin": b"\0\1" * 5000,
            "empty.txt": b"",
            "c.png": b"\x89PNG\r\n\x1a\n\0" * 500,
        }
        write_skill(skills, "a", files=files)
        return text

    async def read(self, session: Session, path: str = "a.txt", **arguments: Any) -> list[str]:
        result = await session.client.call_tool("read_skill_file", {"skill": "a", "path": path, **arguments})
        assert not result.is_error, result.content
        return texts_of(result)

    async def test_they_count_characters_of_the_decoded_text(self, connect: Connect, file: str) -> None:
        async with connect() as session:
            assert await self.read(session) == [file]
            assert await self.read(session, offset=0) == [file]
            text, note = await self.read(session, offset=3, limit=10)
            assert text == file[3:13]
            assert note.startswith("\n[Characters 3 to 13 of 7000 of a.txt (")
            assert note.endswith(
                'The rest is missing. To read on, call read_skill_file with skill "a", path "a.txt", offset 13.]'
            )
            text, note = await self.read(session, offset=6990)
            assert text == file[6990:]
            assert note.endswith("Here the file ends.]")
            text, note = await self.read(session, offset=7000)
            assert text == ""
            assert await self.read(session, limit=7000) == [file]
            assert await self.read(session, "empty.txt", offset=0) == [""]

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (
                {"offset": 7001},
                "offset must be a whole number from 0 to 7000, the number of characters of a.txt; it is",
            ),
            ({"offset": -1}, "offset must be a whole number from 0 to 7000"),
            ({"offset": "x"}, "offset must be a whole number, from 0 on"),
            ({"limit": 0}, "limit must be a whole number, from 1 on; it is 0"),
            ({"limit": 1.5}, "limit must be a whole number, from 1 on"),
            ({"limit": True}, "limit must be a whole number, from 1 on"),
            (
                {"path": "b.bin", "offset": 5},
                "offset and limit are for text files, and b.bin of the skill 'a' is binary",
            ),
            ({"path": "c.png", "limit": 5}, "leave them out to get the whole file"),
        ],
    )
    @pytest.mark.usefixtures("file")
    async def test_a_mistake_says_what_was_expected(
        self, in_memory: ConnectHosted, skills: Path, arguments: dict[str, Any], expected: str
    ) -> None:
        async with in_memory(skills) as session:
            result = await session.client.call_tool("read_skill_file", {"skill": "a", "path": "a.txt", **arguments})
        assert result.is_error
        assert expected in result.content[0].text

    async def test_forms_of_numbers_that_clients_send_are_read(
        self, in_memory: ConnectHosted, skills: Path, file: str
    ) -> None:
        async with in_memory(skills) as session:
            assert (await self.read(session, offset="3", limit=2.0))[0] == file[3:5]
            assert await self.read(session, offset=None, limit=None) == [file]

    async def test_a_limit_above_the_client_s_gives_what_fits(
        self, in_memory: ConnectHosted, skills: Path, file: str
    ) -> None:
        async with in_memory(skills, client_name="@cline/core") as session:
            text, note = await self.read(session, offset=7, limit=6900)
            assert len(text) < 6900
            assert text == file[7 : 7 + len(text)]
            assert text.endswith("\r\n")
            assert f"offset {7 + len(text)}." in note

    @pytest.mark.usefixtures("file")
    async def test_a_binary_file_that_the_client_would_cut_is_refused(
        self, in_memory: ConnectHosted, skills: Path
    ) -> None:
        async with in_memory(skills, client_name="@cline/core") as session:
            result = await session.client.call_tool("read_skill_file", {"skill": "a", "path": "b.bin"})
        assert result.is_error
        assert "b.bin of the skill 'a' is binary (10000 bytes), and this client passes on at most 8000" in (
            result.content[0].text
        )

    @given(text=st.text(max_size=300).map(lambda text: text * 60))
    @settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
    async def test_parts_of_any_text_make_up_the_file(self, in_memory: ConnectHosted, skills: Path, text: str) -> None:
        shutil.rmtree(skills, ignore_errors=True)
        write_skill(skills, "a", files={"any.txt": text.replace("\0", "").encode("utf-8", "replace")})
        whole = (skills / "a" / "any.txt").read_bytes().decode()
        async with in_memory(skills, watch=False, client_name="@cline/core") as session:
            reader = Reader(session)
            result = await reader.call("read_skill_file", skill="a", path="any.txt")
            read = result["content"][0]["text"]
            if len(result["content"]) > 1:
                read += await reader.read_on(result)
        assert read == whole
        assert all(utf16(as_json(each)) <= 8000 for each in reader.results)
