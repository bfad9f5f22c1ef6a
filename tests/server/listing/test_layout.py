"""Which skills a client's model is shown, in which order, and within which bounds."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from server.clients.known import client_called
from server.clients.layout import layout_for
from server.clients.profile import UNKNOWN
from server.config.files import ConfigurationError
from server.config.settings.layers import load_settings
from server.config.settings.model import Settings
from server.config.settings.server import Transport
from server.hosting.usage import MAX_REMEMBERED, UsageCounts, read_counts
from server.listing.layout import ListingLayout, size_of
from server.listing.snapshot import Snapshot
from skills_core import Catalog, Environment, Library, explicit_sources
from tests.conftest import write_skill
from tests.server.sessions import Connect, Session, server_command, server_environment
from tests.server.settings import make_settings

CLAUDE_CODE = client_called("claude-code")


def shown(text: str | None) -> list[str]:
    return re.findall(r"^- ([^:\n]+):", text or "", re.MULTILINE)


async def description(session: Session) -> str:
    tools = (await session.client.list_tools()).tools
    text: str = tools[0].description
    return text


def catalog_of(root: Path) -> Catalog:
    return Library(explicit_sources([root]), lambda: Environment(os="linux", has_bin=lambda _: True)).catalog


@pytest.fixture
def fifty(skills: Path) -> Path:
    for number in range(50):
        write_skill(skills, f"s{number:02}", description=f"Does thing {number}. " + "Use it for that alone. " * 4)
    return skills


@pytest.mark.usefixtures("fifty")
async def test_a_client_that_cuts_is_sent_what_it_shows(connect: Connect) -> None:
    every = [f"s{number:02}" for number in range(50)]
    async with connect(client_name="claude-code") as session:
        # A server that gets little of the processor may list what is loaded before all is.
        await session.until_enum(every)
        text = await description(session)
        assert len(text) <= 4096
        tools = (await session.client.list_tools()).tools
        further = shown(next(tool.description for tool in tools if tool.name == "find_skills"))
        in_instructions = shown(session.client.instructions)
        # A client that did not ask for the instructions has none.
        assert [*shown(text), *in_instructions, *further] == (every if in_instructions else [*shown(text), *further])
        assert [*shown(text), *further] == [key for key in every if key in {*shown(text), *further}]
    async with connect(client_name="somebody") as session:
        await session.until_enum(every)
        assert len(shown(await description(session))) == 50


async def test_no_cache_may_hand_the_list_for_one_client_to_another(fifty: Path) -> None:
    result = Snapshot(catalog_of(fifty), make_settings(transport=Transport.HTTP)).tools(ListingLayout(2000))
    assert result["cacheScope"] == "private"


@pytest.mark.parametrize(
    ("settings", "known", "unknown"),
    [
        (Settings(), 4096, 16_000),
        (make_settings(catalog_budget=1000), 1000, 1000),
        (make_settings(client_budgets={"claude-code": 9000}), 9000, 16_000),
        (make_settings(client_budgets={"unknown": 700}), 4096, 700),
    ],
)
def test_what_is_set_for_a_client_counts_more_than_what_is_known_of_it(
    settings: Settings, known: int, unknown: int
) -> None:
    assert layout_for(CLAUDE_CODE, settings).catalog == known
    assert layout_for(UNKNOWN, settings) == ListingLayout(unknown)


def test_budgets_of_clients_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "config" / "skillserve" / "skillserve.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[clients.budgets]\nclaude-code = 4000\n")
    assert load_settings({}, {}, tmp_path / "config").clients.budgets == {"claude-code": 4000}
    file.write_text("[clients.budgets]\nclaude-code = 0\n")
    with pytest.raises(ConfigurationError, match=r"skillserve\.toml: clients\.budgets\.claude-code: "):
        load_settings({}, {}, tmp_path / "config")


def test_pinned_skills_come_first_then_those_always_on_then_those_used_most_then_all_by_name(skills: Path) -> None:
    for name in "abcdefg":
        write_skill(skills, name)
    write_skill(skills, "always", fields="triggers: ['*']")
    write_skill(skills, "mine", fields="disable-model-invocation: true")
    used = {"c": 2, "e": 5, "gone": 9, "f": 2, "mine": 7, "g": 1}
    settings = make_settings(pinned=("g", "nobody", "b", "mine"), enum_limit=4)
    (activate, *_) = Snapshot(catalog_of(skills), settings, used).tools(ListingLayout(10_000))["tools"]
    assert shown(activate["description"]) == ["g", "b", "always", "e", "c", "f", "a", "d"]
    assert activate["inputSchema"]["properties"]["name"]["enum"] == ["g", "b", "always", "e"]


def test_the_limit_of_entries_holds_where_all_fit(fifty: Path) -> None:
    snapshot = Snapshot(catalog_of(fifty), make_settings(entry_limit=30))
    text = snapshot.tools(ListingLayout(16_000))["tools"][0]["description"]
    assert len(shown(text)) == 50
    assert "\n- s00: Does thing 0. Use it for that…\n" in text


def test_a_client_that_drops_a_tool_for_its_size_gets_as_many_names_as_it_takes(skills: Path) -> None:
    for number in range(700):
        write_skill(skills, f"a-skill-with-a-name-of-some-length-{number:03}")
    settings = make_settings(enum_limit=1000)
    snapshot = Snapshot(catalog_of(skills), settings)
    rooms = [layout_for(client_called(name), settings) for name in ("claude-ai", "somebody")]
    small, whole = (snapshot.tools(room)["tools"][0]["inputSchema"] for room in rooms)
    assert size_of(small) <= 16_384 < size_of(whole)
    names = small["properties"]["name"]["enum"]
    assert names == whole["properties"]["name"]["enum"][: len(names)]
    assert 300 < len(names) < 700
    assert "Any other name that find_skills returns is accepted" in small["properties"]["name"]["description"]


def test_a_name_that_is_longer_than_all_the_room_hides_no_other(skills: Path) -> None:
    (skills / "long").mkdir()
    (skills / "long" / "SKILL.md").write_text(f"---\nname: {'a' * 40_000}\ndescription: Does a thing.\n---\nDo it.\n")
    room = layout_for(client_called("claude-ai"), Settings())
    alone = Snapshot(catalog_of(skills), Settings()).tools(room)["tools"][0]
    # Some models' interfaces take no list of nothing.
    assert "enum" not in alone["inputSchema"]["properties"]["name"]
    write_skill(skills, "short")
    tool = Snapshot(catalog_of(skills), Settings()).tools(room)["tools"][0]
    assert tool["inputSchema"]["properties"]["name"]["enum"] == shown(tool["description"]) == ["short"]


def test_the_log_warns_of_names_in_settings_that_name_nothing(tmp_path: Path) -> None:
    write_skill(tmp_path, "a", fields="tools: [{name: count, script: count.py}]")
    own = tmp_path / "config" / "skillserve" / "skillserve.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[clients.budgets]\nclaude_code = 4000\n[catalog]\ndisabled = ["a", "nothere", "tag:none"]\n')
    switched_on = ["a/count", "a/*", "a/cuont", "nope/*"]
    command = [*server_command(tmp_path), "--pin", "a", "--pin", "nope"]
    command += [word for entry in switched_on for word in ("--skill-tool", entry)]
    done = subprocess.run(
        command,
        input="",
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=server_environment(
            XDG_CONFIG_HOME=str(tmp_path / "config"), APPDATA=str(tmp_path / "config"), SKILLSERVE_PROT="9"
        ),
    )
    misspelled = "the environment variable SKILLSERVE_PROT: no setting has this name; the closest one is"
    assert f"{misspelled} SKILLSERVE_PORT" in done.stderr
    assert "clients.budgets: unknown client claude_code; expected one of claude-code, " in done.stderr
    assert "catalog.pinned: no skill nope is offered to models" in done.stderr
    assert "catalog.disabled: there is no skill nothere" in done.stderr
    assert re.findall(r"tools.declared: no skill declares the tool (\S+)", done.stderr) == ["a/cuont", "nope/*"]
    assert "catalog.disabled: there is no skill a" not in done.stderr
    assert "tag:none" not in done.stderr


def test_entries_are_counted_as_clients_in_javascript_do(skills: Path) -> None:
    for number in range(30):
        write_skill(skills, f"s{number:02}", description="\U0001f600" * 100)
    text = Snapshot(catalog_of(skills), Settings()).tools(ListingLayout(2048))["tools"][0]["description"]
    assert len(text.encode("utf-16-le")) // 2 <= 2048
    assert len(shown(text)) > 5


def test_instructions_name_what_is_always_on_and_its_entries_come_first(skills: Path) -> None:
    for name in ("z-rule", "y-rule"):
        write_skill(skills, name, description="Apply this. " * 12, fields="triggers: ['*']")
    write_skill(skills, "other")
    snapshot = Snapshot(catalog_of(skills), Settings())
    text = snapshot.instructions(ListingLayout(16_000)) or ""
    assert text.startswith("Before a task that a skill fits, call activate_skill(name). find_skills searches them")
    assert "\nThese apply to every task, so activate them first: y-rule, z-rule." in text
    assert shown(text) == []
    assert shown(snapshot.tools(ListingLayout(16_000))["tools"][0]["description"]) == ["y-rule", "z-rule", "other"]


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state"), "SKILLSERVE_USAGE": "true"}


async def test_what_was_used_most_is_offered_first_by_the_next_server(
    connect: Connect, skills: Path, state: dict[str, str]
) -> None:
    for name in "abc":
        write_skill(skills, name)
    async with connect(**state) as session:
        for name in ("c", "b", "c"):
            await session.activate(name)
        # The order must not change under a client.
        assert shown(await description(session)) == ["a", "b", "c"]
    async with connect(**state) as session:
        await session.client.get_prompt("b", {})
        await session.client.get_prompt("b", {})
        assert await session.enum() == ["c", "b", "a"]
    async with connect(**state) as session:
        assert await session.enum() == ["b", "c", "a"]


async def test_nothing_is_remembered_where_that_is_switched_off(connect: Connect, skills: Path, tmp_path: Path) -> None:
    write_skill(skills, "a")
    async with connect(XDG_STATE_HOME=str(tmp_path / "state"), SKILLSERVE_USAGE="false") as session:
        await session.activate("a")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("damage", [b"no database at all", b"", b"SQLite format 3\0garbage"])
def test_a_damaged_file_costs_only_the_counts(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "usage.db"
    file.write_bytes(damage)
    usage = UsageCounts(file)
    assert usage.before == {}
    usage.add("a")
    usage.write()
    usage.add("a")
    usage.write()


def test_a_place_that_cannot_be_written_costs_only_the_counts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    usage = UsageCounts(tmp_path / "file" / "usage.db")
    usage.add("a")
    usage.write()


def test_a_place_that_cannot_even_be_looked_at_costs_only_the_counts(tmp_path: Path) -> None:
    usage = UsageCounts(tmp_path / ("long" * 100) / "usage.db")
    assert usage.before == {}
    usage.add("a")
    usage.write()


@pytest.mark.parametrize("count", ["1e999", "'many'", "x'00ff'"])
def test_a_count_that_is_no_number_costs_only_the_counts(tmp_path: Path, count: str) -> None:
    usage = UsageCounts(tmp_path / "usage.db")
    usage.add("a")
    usage.write()
    with closing(sqlite3.connect(tmp_path / "usage.db")) as connection, connection:
        connection.execute(f"UPDATE usage SET count = {count}")  # noqa: S608 - ours, and no parameter is such a value
    assert read_counts(tmp_path / "usage.db") == {}


def test_servers_that_run_side_by_side_add_up(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "usage.db"
    one, other = UsageCounts(file), UsageCounts(file)
    for usage in (one, other, one):
        usage.add("a")
        usage.write()
    other.add("b")
    other.write()
    assert UsageCounts(file).before == {"a": 3, "b": 1}


def test_only_those_used_most_are_read(tmp_path: Path) -> None:
    file = tmp_path / "usage.db"
    usage = UsageCounts(file)
    for number in range(MAX_REMEMBERED + 5):
        usage.add(f"s{number:05}")
    usage.add("s00003")
    usage.write()
    counts = read_counts(file)
    assert len(counts) == MAX_REMEMBERED
    assert next(iter(counts)) == "s00003"
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM usage").fetchone() == (MAX_REMEMBERED + 5,)
