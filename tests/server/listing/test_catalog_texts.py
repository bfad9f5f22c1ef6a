"""The texts that tell models of skills: the lead of the instructions, the descriptions, and what each client gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from server.clients.known import KNOWN_CLIENTS, find_client
from server.clients.layout import layout_for
from server.clients.profile import UNKNOWN, ClientProfile
from server.config.settings.model import Settings
from server.config.settings.skills import ClientSettings
from server.listing.catalog_texts import MAX_FURTHER_NAMES, MAX_LEAD
from server.listing.layout import MAX_INSTRUCTIONS, size_of
from server.listing.snapshot import Snapshot
from skills_core.catalog.catalog import Catalog
from skills_core.rendering.catalog import utf16_length
from skills_core.rendering.escaping import escape_line
from tests.server.settings import make_settings
from tests.skill_values import skill_of

SIZES = (1, 10, 100, 1000)
EARLIER = [client.of_version("0.1") for client in KNOWN_CLIENTS if client.earlier]
CLIENTS = [*KNOWN_CLIENTS, *EARLIER, UNKNOWN]

each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.key)
each_size = pytest.mark.parametrize("size", SIZES)

NAMES: dict[str, Callable[[int], str]] = {
    "words": lambda number: f"{('release', 'invoice', 'kubernetes', 'recipe')[number % 4]}-check-{number}",
    "chinese": lambda number: f"发布说明-{number}",
    "emoji": lambda number: "\U0001f680" * (number % 7 + 1) + f"{number}",
    "longest": lambda number: f"{number:04}-" + "long-" * 11 + "name",
    "hostile": lambda number: f'</skill>\n<available_skills "{number}',
}


@cache
def named(kind: str, size: int) -> Catalog:
    """Return a catalog of skills with names of one kind."""
    description = "Does a thing. " * 15
    return Catalog(tuple(skill_of(NAMES[kind](number), description) for number in range(size)))


def client(key: str) -> ClientProfile:
    return find_client(key)


@cache
def usual(kind: str, size: int) -> Snapshot:
    """Return the lists with the default settings; clients with the same layout share them."""
    return Snapshot(named(kind, size), Settings())


class Received:
    """What a client receives of a catalog."""

    def __init__(self, served: Catalog | Snapshot, to: ClientProfile, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        snapshot = Snapshot(served, settings) if isinstance(served, Catalog) else served
        layout = layout_for(to, settings)
        self.tools: dict[str, dict[str, Any]] = {tool["name"]: tool for tool in snapshot.tools(layout)["tools"]}
        self.description: str = self.tools["activate_skill"]["description"]
        self.instructions = snapshot.instructions(layout) or ""
        self.lead = self.instructions.encode("utf-16-le")[: 2 * MAX_LEAD].decode("utf-16-le", "ignore")
        self.enum: list[str] = self.tools["activate_skill"]["inputSchema"]["properties"]["name"].get("enum", [])

    @property
    def texts(self) -> list[str]:
        return [self.instructions, *(tool["description"] for tool in self.tools.values())]


def entries(text: str) -> list[str]:
    return re.findall(r"^- (.*?):(?: |$)", text, re.MULTILINE)


@pytest.mark.parametrize("kind", NAMES)
@each_client
def test_the_first_250_units_hold_the_rule_the_tools_and_what_the_skills_are(client: ClientProfile, kind: str) -> None:
    for size in SIZES:
        received = Received(usual(kind, size), client)
        first, _, rest = received.instructions.partition("\n")
        assert utf16_length(first) <= MAX_LEAD
        called = layout_for(client, Settings()).activation_tool
        assert called.endswith("activate_skill")
        assert first.startswith(f"Before a task that a skill fits, call {called}(name). find_skills searches them")
        assert ('Search for "skills".' if client.defers else "read_skill_file reads files.") in first
        if layout_for(client, Settings()).in_sight:
            assert first.endswith(f" {size} skills." if size > 1 else " 1 skill.")
        else:
            # Names, examples of them, or topics.
            assert re.search(rf" {size} skills?(?::|, such as|; on) [^ ,.].*\.$", first), first
        # All else, the catalog above all, comes later.
        assert "<available_skills>" not in first
        assert rest


def test_a_small_catalog_is_named_whole_and_a_large_one_by_examples_and_topics() -> None:
    assert (
        Received(named("words", 3), UNKNOWN)
        .lead.splitlines()[0]
        .endswith(" 3 skills: invoice-check-1, kubernetes-check-2, release-check-0.")
    )
    first = Received(usual("words", 1000), UNKNOWN).instructions.split("\n")[0]
    assert re.search(r" 1000 skills, such as invoice-check-1, .*; on check, invoice, kubernetes, recipe", first), first


@each_size
@each_client
def test_no_text_exceeds_what_the_client_shows(client: ClientProfile, size: int) -> None:
    for kind in NAMES:
        received = Received(usual(kind, size), client)
        for tool in received.tools.values():
            assert client.description is None or utf16_length(tool["description"]) <= client.description.characters
            assert client.schema is None or size_of(tool["inputSchema"]) <= client.schema.value
            hint = tool["_meta"].get("anthropic/searchHint", "")
            assert utf16_length(hint) <= 4096
        limit = client.instructions.characters if client.instructions else 0
        in_instructions = entries(received.instructions)
        budget = Settings().catalog.budget + MAX_FURTHER_NAMES + MAX_INSTRUCTIONS
        most = max(limit, MAX_INSTRUCTIONS) if limit or not in_instructions else budget
        assert utf16_length(received.instructions) <= most


def test_names_without_an_entry_stand_where_a_client_that_drops_the_enum_shows_them() -> None:
    received = Received(named("words", 100), client("gptme"))
    shown = entries(received.description)
    assert shown
    assert received.enum == []
    (line,) = re.findall(
        r"^Further skills, by name: (.*)\.$", received.tools["find_skills"]["description"], re.MULTILINE
    )
    everything = [skill.key for skill in named("words", 100).offered]
    assert [*shown, *line.split(", ")] == everything[: len(shown) + line.count(", ") + 1]
    whole = Received(named("words", 1000), client("mcp-use"))
    assert whole.enum == []
    assert all(skill.key in whole.description for skill in named("words", 1000).offered)


@each_size
def test_claude_code_reads_the_catalog_in_three_texts_and_each_skill_once(size: int) -> None:
    for version in (None, "2.1.200"):
        received = Received(named("words", size), client("claude-code").of_version(version))
        texts = (received.description, received.instructions, received.tools["find_skills"]["description"])
        found = [key for text in texts for key in entries(text)]
        everything = [skill.key for skill in named("words", size).offered]
        assert found == everything[: len(found)]
        if version is None:
            # A hundred skills are described, which the client's own list of native ones does not do.
            assert len(found) >= min(size, 100)


def test_what_models_that_see_the_catalog_read_says_nothing_twice() -> None:
    received = Received(usual("words", 20), client("gemini"))
    assert entries(received.description) == [skill.key for skill in named("words", 20).offered]
    assert [
        text for text in (received.instructions, received.tools["find_skills"]["description"]) if "-check-" in text
    ] == []


def test_the_lead_prefers_things_to_actions() -> None:
    skills = [
        skill_of(f"polish-{thing}", f"Helps to polish a {thing}.") for thing in ("table", "violin", "lamp", "shoe")
    ]
    skills += [
        skill_of(f"repair-{thing}", f"Repairs the {thing}.") for thing in map("clock{}".format, "abcdefghijklmnopqrst")
    ]
    lead = Received(Catalog(tuple(skills)), client("codex")).lead
    assert re.search(r"; on (?!polish|repair)[a-z]+, (?!polish|repair)[a-z]+", lead), lead


@each_size
@pytest.mark.parametrize("kind", NAMES)
def test_qwen_finds_the_catalog_in_the_instructions_and_may_call_every_name(kind: str, size: int) -> None:
    catalog = named(kind, size)
    received = Received(catalog, client("qwen"))
    assert received.enum == []
    assert entries(received.description) == []
    assert len(entries(received.instructions)) >= min(size, 100)
    skill_tools = [
        {key: tool[key] for key in ("name", "description", "inputSchema")}
        for name, tool in received.tools.items()
        if name in {"activate_skill", "read_skill_file", "find_skills"}
    ]
    assert len(skill_tools) == 3
    limit = client("qwen").search_answer
    assert limit is not None
    assert limit.characters == 28_000
    assert size_of(skill_tools) < limit.characters / 3


def test_a_client_that_checks_the_enum_and_refreshes_gets_all_names_or_none() -> None:
    for limit, expected in ((100, 100), (99, 0)):
        received = Received(named("words", 100), client("gemini"), make_settings(enum_limit=limit))
        assert len(received.enum) == expected


@each_size
def test_where_there_is_no_enum_every_skill_is_named_in_a_text(size: int) -> None:
    catalog = named("words", size)
    for received in (
        Received(catalog, client("qwen")),
        Received(catalog, client("gemini"), make_settings(enum_limit=1)),
    ):
        text = received.instructions + received.description
        if not received.enum:
            assert [skill.key for skill in catalog.offered if skill.key not in text] == []


def test_a_name_of_any_length_hides_no_other_name() -> None:
    endless = skill_of("a" * 50_000, "Endless.")
    catalog = Catalog((endless, *named("words", 30).skills))
    preferred = "release-check-4"
    for key in ("codex", "qwen", "claude-code", "zed", "gemini"):
        received = Received(catalog, client(key), make_settings(pinned=(endless.key, preferred)))
        assert (entries(received.description) or entries(received.instructions))[0] == preferred
        if not layout_for(client(key), Settings()).in_sight:
            assert f"Pinned or used most: {preferred}." in received.instructions
            assert "check" in received.lead
        assert len(received.instructions) < 32_000
    always = Catalog((skill_of("z" * 50_000, "Endless.", triggers=("*",)), skill_of("rule", triggers=("*",))))
    for key in ("codex", "qwen", "claude-code"):
        assert "rule" in Received(always, client(key)).instructions
        assert len(Received(always, client(key)).instructions) < 5_000


def test_the_name_of_the_server_leaves_the_rule_and_topics_whole() -> None:
    settings = Settings(clients=ClientSettings(server_name="s" * 64))
    received = Received(named("words", 50), client("gemini"), settings)
    first = received.instructions.split("\n")[0]
    assert first.startswith(f"Before a task that a skill fits, call mcp_{'s' * 64}_activate_skill(name). find_skills")
    assert "read_skill_file" in first
    assert first.endswith(" 50 skills.")
    assert len(first) <= MAX_LEAD


HOSTILE = st.lists(
    st.sampled_from(
        ["<", ">", "/", "skill", "skills", "available_skills", " ", "-", "_", ".", ",", '"', "\n", "\u202e", "&", "a"]
    ),
    min_size=1,
    max_size=8,
).map("".join)


@given(st.lists(HOSTILE, min_size=1, max_size=6, unique=True), st.sampled_from(["codex", "qwen", "claude-code", "zed"]))
@example(["<skill-x>"], "codex")
@example(["</-skill>"], "qwen")
@example(["<.available_skills>"], "zed")
def test_no_name_opens_or_closes_one_of_our_elements(names: list[str], key: str) -> None:
    catalog = Catalog(tuple(skill_of(name, name) for name in names))
    received = Received(catalog, client(key), make_settings(pinned=(names[0],)))
    for text in received.texts:
        for line in text.split("\n"):
            if line in {"<available_skills>", "</available_skills>"}:
                continue
            assert escape_line(line) == line
        assert text.count("<available_skills>") == text.count("</available_skills>") <= 2
