"""What a model is given again, and what it is told of skills that it was given."""

from __future__ import annotations

import gc
import hashlib
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.protocol.conversations import MAX_LOADED, Conversation, _Outlines
from skills_core import Catalog, Library, explicit_sources
from skills_core.skills.gates import Environment
from tests.conftest import MakeSkill, write_skill
from tests.server.sessions import Connect, ConnectHosted, Session, http_server, open_session, texts_of
from tests.thoroughness import examples

NEWS = "which you loaded, has changed"


def digest_of(folder: Path) -> str:
    return "sha256:" + hashlib.sha256((folder / "SKILL.md").read_bytes()).hexdigest()


def is_line(text: str) -> bool:
    return "\n" not in text and "has not changed since you loaded it" in text and "without have" in text


async def texts(session: Session, tool: str, **arguments: Any) -> list[str]:
    result = await session.client.call_tool(tool, arguments)
    return texts_of(result)


async def test_the_text_comes_first_then_a_line_and_then_the_text_again(
    connect: Connect, transport: str, era: str, make_skill: MakeSkill
) -> None:
    make_skill("a")
    make_skill("b")
    async with connect() as session:
        first = await session.activate("a")
        assert first.startswith("<skill_content ")
        await session.activate("b")
        second = await session.activate("a")
        # Nothing ties the requests of the modern era over HTTP together.
        assert second == first if (transport, era) == ("http", "modern") else is_line(second)
        assert await session.activate("a") == first


@pytest.mark.every_way
async def test_who_has_the_receipt_gets_the_line_without_any_session(connect: Connect, skills: Path) -> None:
    folder = write_skill(skills, "a")
    async with connect() as session:
        text = await session.activate("a")
        digest = digest_of(folder)
        receipt = digest.removeprefix("sha256:")[:12]
        assert f'receipt="{receipt}">' in text
    for have in (receipt, digest):
        async with connect() as session:
            assert is_line(await session.activate("a", have=have))
            assert await session.activate("a") == text


@pytest.mark.parametrize("have", ["", "sha256:1", "sha256:" + "0" * 63 + "G", "yes", "</skill_content>"])
async def test_what_is_no_digest_is_no_receipt(in_memory: ConnectHosted, skills: Path, have: str) -> None:
    write_skill(skills, "a")
    async with in_memory(skills) as session:
        text = await session.activate("a", have=have)
        assert text.startswith("<skill_content ")
        assert "replaces" not in text


async def test_an_older_receipt_gets_the_new_text_which_says_what_it_replaces(connect: Connect, skills: Path) -> None:
    folder = write_skill(skills, "a", body="Old.")
    older = digest_of(folder)
    write_skill(skills, "a", body="New.")
    async with connect() as session:
        text = await session.activate("a", have=older)
        assert f"This text replaces the one of this skill that you were given before ({older[7:19]})." in text
        assert "New." in text


async def test_other_arguments_are_another_text(in_memory: ConnectHosted, skills: Path) -> None:
    folder = write_skill(skills, "a", body="Do {{what}}.")
    async with in_memory(skills) as session:
        assert "Do one." in await session.activate("a", arguments={"what": "one"})
        assert "Do two." in await session.activate("a", arguments={"what": "two"}, have=digest_of(folder))
        assert is_line(await session.activate("a", arguments={"what": "two"}))
        assert "Do {{what}}." in await session.activate("a")


async def test_a_line_is_followed_by_the_users_message_all_the_same(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "a")
    async with in_memory(skills) as session:
        await session.activate("a")
        line, request = await texts(session, "activate_skill", name="a", message="In French.")
        assert is_line(line)
        assert "<user_request>\nIn French.\n</user_request>" in request


async def test_a_client_that_drops_what_its_model_was_given_gets_the_text_each_time(
    connect: Connect, skills: Path
) -> None:
    folder = write_skill(skills, "a")
    async with connect(client_name="claude-code") as session:
        text = await session.activate("a")
        assert await session.activate("a") == text
        # Its model may know better.
        assert is_line(await session.activate("a", have=digest_of(folder)))


async def test_an_activation_says_what_a_host_should_keep(connect: Connect, skills: Path) -> None:
    folder = write_skill(skills, "a")
    async with connect() as session:
        result = await session.client.call_tool("activate_skill", {"name": "a"})
        about = {"name": "a", "uri": "skill://a/SKILL.md", "digest": digest_of(folder)}
        assert result.meta["skillserve/skill"] == {**about, "unchanged": False}
        again = await session.client.call_tool("activate_skill", {"name": "a", "have": digest_of(folder)})
        assert again.meta["skillserve/skill"] == {**about, "unchanged": True}


@pytest.mark.every_way
async def test_a_skill_that_changed_is_told_of_once_with_the_next_result_of_any_tool(
    connect: Connect, transport: str, era: str, skills: Path
) -> None:
    folder = write_skill(skills, "a", body="Old.", files={"note.md": b"text"})
    write_skill(skills, "b", body="Other.")
    older = digest_of(folder)
    async with connect(("skill://a/SKILL.md",)) as session:
        await session.activate("a")
        write_skill(skills, "a", body="New.")
        await session.until_told("updated skill://a/SKILL.md")
        found = await texts(session, "find_skills", query="thing")
        if (transport, era) == ("http", "modern"):
            assert len(found) == 1
            return
        assert found[1:] == ["The skill a, which you loaded, has changed: load it again with activate_skill."]
        assert await texts(session, "read_skill_file", skill="a", path="note.md") == ["text"]
        text = await session.activate("a")
        assert "New." in text
        assert f"This text replaces the one of this skill that you were given before ({older[7:19]})." in text
        assert is_line(await session.activate("a"))


async def test_news_come_with_errors_too(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "a", body="Old.")
    async with in_memory(skills, watch=False) as session:
        await session.activate("a")
        write_skill(skills, "a", body="New.")
        await session.host.reload()
        error, news = await texts(session, "read_skill_file", skill="a", path="none.md")
        assert "has no file 'none.md'" in error
        assert NEWS in news


async def test_the_files_that_changed_are_named_where_the_instructions_have_not(
    in_memory: ConnectHosted, skills: Path
) -> None:
    folder = write_skill(skills, "a", files={f"{number}.md": b"old" for number in range(8)})
    async with in_memory(skills, watch=False) as session:
        first = await session.activate("a")
        for number in range(7):
            (folder / f"{number}.md").write_text("new")
        await session.host.reload()
        news = (await texts(session, "find_skills", query="thing"))[1:]
        assert news == [
            "The skill a, which you loaded, has changed in its files 0.md, 1.md, 2.md, 3.md, 4.md and 2 more."
        ]
        # The list of files may be another, so this is no repetition; the instructions are not replaced.
        assert await session.activate("a") == first


async def test_a_skill_whose_folder_was_renamed_is_handed_over_again(in_memory: ConnectHosted, skills: Path) -> None:
    folder = write_skill(skills, "a")
    # The text names the folder to a client whose own tools read the disk.
    async with in_memory(skills, watch=False, client_name="continue-cli-client") as session:
        assert f"Skill directory: {folder.resolve()}\n" in await session.activate("a")
        other = folder.rename(skills / "b")
        await session.host.reload()
        # It is called as before, and all that its text said of the disk leads nowhere.
        assert f"Skill directory: {other.resolve()}\n" in await session.activate("a")
        assert is_line(await session.activate("a"))


async def test_who_has_the_receipt_gets_the_text_where_another_file_is_known_to_have_changed(
    in_memory: ConnectHosted, skills: Path
) -> None:
    folder = write_skill(skills, "a", files={"note.md": b"old"})
    async with in_memory(skills, watch=False) as session:
        first = await session.activate("a")
        (folder / "note.md").write_text("new")
        await session.host.reload()
        assert await session.activate("a", have=digest_of(folder)) == first
        assert is_line(await session.activate("a", have=digest_of(folder)))


async def test_a_skill_that_went_away_is_told_of_once(in_memory: ConnectHosted, skills: Path) -> None:
    folder = write_skill(skills, "a")
    write_skill(skills, "b")
    async with in_memory(skills, watch=False) as session:
        await session.activate("a")
        shutil.rmtree(folder)
        await session.host.reload()
        assert (await texts(session, "find_skills", query="x"))[1:] == [
            "The skill a, which you loaded, is no longer there."
        ]
        assert len(await texts(session, "find_skills", query="x")) == 1
        write_skill(skills, "a")
        await session.host.reload()
        assert (await session.activate("a")).startswith("<skill_content ")


async def test_what_is_back_as_it_was_is_no_news(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "a", body="Old.")
    async with in_memory(skills, watch=False) as session:
        await session.activate("a")
        for body in ("New.", "Old."):
            write_skill(skills, "a", body=body)
            await session.host.reload()
        assert len(await texts(session, "find_skills", query="x")) == 1
        assert is_line(await session.activate("a"))


async def test_sessions_over_http_know_nothing_of_each_other(skills: Path) -> None:
    write_skill(skills, "a")
    async with (
        http_server(skills) as url,
        open_session(url, "handshake") as one,
        open_session(url, "handshake") as other,
    ):
        text = await one.activate("a")
        assert await other.activate("a") == text
        assert is_line(await one.activate("a"))


@pytest.mark.parametrize(("name", "value"), [("have", 3), ("message", 1)])
async def test_what_is_of_another_kind_is_an_error_that_says_so(
    in_memory: ConnectHosted, skills: Path, name: str, value: object
) -> None:
    write_skill(skills, "a")
    async with in_memory(skills) as session:
        result = await session.client.call_tool("activate_skill", {"name": "a", name: value})
        assert result.is_error
        assert f"{name} must be" in result.content[0].text


def catalog_of(root: Path) -> Catalog:
    return Library(explicit_sources([root]), lambda: Environment(os="linux", has_bin=lambda _: True)).catalog


ASKS = st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.booleans()), max_size=30)


@given(asks=ASKS)
@settings(max_examples=examples(100))
def test_nobody_is_put_off_twice_and_nobody_before_a_text(
    asks: list[tuple[str, bool, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("skills")
    for name in "ab":
        write_skill(root, name)
    catalog, conversation = catalog_of(root), Conversation()
    lines = {"a": 0, "b": 0}
    given_before = set()
    for name, has, keeps in asks:
        skill = catalog.skill(name)
        have = skill.digest if has else None
        delivery = conversation.deliver(skill, {}, have=have, keeps=keeps)
        assert delivery.text or has or (keeps and name in given_before)
        lines[name] = 0 if delivery.text else lines[name] + 1
        assert lines[name] <= 1
        assert delivery.replaces is None
        given_before.add(name)


def test_only_so_many_skills_are_remembered(load_many: Callable[[int], Catalog]) -> None:
    catalog, conversation = load_many(MAX_LOADED + 1), Conversation()
    for skill in catalog.active:
        conversation.deliver(skill, {})
    assert conversation.deliver(catalog.active[0], {}).text
    assert not conversation.deliver(catalog.active[-1], {}).text


@pytest.fixture
def load_many(tmp_path: Path) -> Callable[[int], Catalog]:
    def load(count: int) -> Catalog:
        for number in range(count):
            write_skill(tmp_path, f"s{number:04}")
        return catalog_of(tmp_path)

    return load


def test_a_conversation_keeps_neither_catalogs_nor_skills_of_former_times(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "a", body="Old.")
    write_skill(tmp_path, "b")
    library = Library(explicit_sources([tmp_path]), lambda: Environment(os="linux", has_bin=lambda _: True))
    conversation = Conversation()
    conversation.deliver(library.catalog.skill("a"), {"what": "x" * 1000})
    conversation.news(library.catalog)
    catalog, content = weakref.ref(library.catalog), weakref.ref(library.catalog.skill("a").content)
    write_skill(tmp_path, "a", body="New.")
    library.reload([folder.resolve() / "SKILL.md"])
    gc.collect()
    assert (catalog(), content()) == (None, None)
    assert any(NEWS in line for line in conversation.news(library.catalog))


def test_conversations_that_were_given_the_same_share_what_they_remember_of_it(tmp_path: Path) -> None:
    write_skill(tmp_path, "a", files={f"{number}.md": b"x" for number in range(100)})
    skill = catalog_of(tmp_path).skill("a")
    outlines = _Outlines()
    conversations = [Conversation(outlines) for _ in range(50)]
    for conversation in conversations:
        conversation.deliver(skill, {})
    assert len({id(each._loaded[skill.path].given) for each in conversations}) == 1
    assert len(outlines._shared) == 1
    conversations.clear()
    del conversation
    gc.collect()
    assert len(outlines._shared) == 0
