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
    return re.findall(r'^<skill name="(.*?)">', text, re.MULTILINE)


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


@each_size
def test_claude_code_reads_different_skills_in_its_two_texts(size: int) -> None:
    for version in (None, "2.1.200"):
        received = Received(named("words", size), client("claude-code").of_version(version))
        described, instructed = entries(received.description), entries(received.instructions)
        assert set(described).isdisjoint(instructed)
        assert len(described) + len(instructed) == len(set(described + instructed)) <= size
        if size >= 100:
            # The second text begins where the first one ends.
            assert len(instructed) > len(described) / 2
            everything = [skill.key for skill in named("words", size).offered]
            assert described + instructed == everything[: len(described + instructed)]
        elif size == 1:
            assert instructed == []


@each_size
@pytest.mark.parametrize("kind", NAMES)
def test_qwen_finds_the_catalog_in_the_instructions_and_may_call_every_name(kind: str, size: int) -> None:
    catalog = named(kind, size)
    received = Received(catalog, client("qwen"))
    assert received.enum == []
    assert entries(received.description) == []
    assert len(entries(received.instructions)) > min(size, 50) * 0.9
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
        assert f"Pinned or used most: {preferred}." in received.instructions
        assert "check" in received.lead
        assert len(received.instructions) < 32_000
    always = Catalog((skill_of("z" * 50_000, "Endless.", triggers=("*",)), skill_of("rule", triggers=("*",))))
    for key in ("codex", "qwen", "claude-code"):
        assert "rule" in Received(always, client(key)).instructions
        assert len(Received(always, client(key)).instructions) < 5_000


def test_entries_of_skills_that_apply_to_every_task_keep_the_limit_of_entries() -> None:
    catalog = Catalog((skill_of("rule", "word " * 100, triggers=("*",)),))
    received = Received(catalog, UNKNOWN, make_settings(entry_limit=50))
    assert entries(received.instructions) == ["rule"]
    for line in received.instructions.split("\n"):
        assert not line.startswith("<skill ") or len(line) < 100


def test_the_name_of_the_server_leaves_the_rule_and_topics_whole() -> None:
    settings = Settings(clients=ClientSettings(server_name="s" * 64))
    received = Received(named("words", 50), client("gemini"), settings)
    first = received.instructions.split("\n")[0]
    assert first.startswith(f"Before a task that a skill fits, call mcp_{'s' * 64}_activate_skill(name). find_skills")
    assert "read_skill_file" in first
    assert " 50 skills" in first
    assert "check" in first
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
            if line.startswith('<skill name="'):
                assert re.fullmatch(r'<skill name="[^"<>\n]*">[^<>]*</skill>', line), line
            else:
                assert escape_line(line) == line
        assert text.count("<available_skills>") == text.count("</available_skills>") <= 2
