"""What a client's model sees of each text: at once, and after the client's own search for tools."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.visibility.served_listing import (
    DESCRIBING,
    Obstacle,
    ServedSkills,
    Sight,
    VisibleTexts,
    names_in,
    served_skills,
    visible_texts,
)
from server.clients.known import find_client
from server.clients.profile import ClientProfile, Evidence, Fact, Limit
from server.listing.snapshot import Snapshot
from skills_core.catalog.catalog import Catalog
from skills_core.rendering.catalog import utf16_length
from tests.server.settings import make_settings
from tests.skill_values import catalog_of, skill_of

SOMEWHERE = Evidence("here", "2026-01-01")
YES, NO = Fact(value=True, evidence=SOMEWHERE), Fact(value=False, evidence=SOMEWHERE)


def client_with(**facts: Any) -> ClientProfile:
    return ClientProfile("test", "a client")._replace(**facts)


def of(catalog: Catalog, client: ClientProfile | str, **options: Any) -> tuple[VisibleTexts, ServedSkills]:
    """Return what a client, given as such or by key and version, sees of a catalog."""
    if isinstance(client, str):
        key, _, version = client.partition("@")
        client = find_client(key, version or None)
    snapshot = Snapshot(catalog, make_settings(**options))
    return visible_texts(snapshot, client), served_skills(snapshot, client)


def sights(found: ServedSkills) -> list[Sight | None]:
    return [shown.sight for shown in found.skills]


MANY = catalog_of(*["word " * 40] * 200)
FEW = catalog_of("One.", "Two.", "Three.")


def test_codex_shows_the_lead_of_the_instructions_and_no_tool_before_a_search() -> None:
    texts, found = of(MANY, "codex")
    assert texts.search.deferred
    assert utf16_length(texts.instructions.at_once) == 250
    assert (texts.description.at_once, texts.find_skills.at_once) == ("", "")
    assert texts.description.loaded == texts.description.text
    # The lead names some of them.
    assert set(sights(found)) == {Sight.TOOL_SEARCH, Sight.NAMED}
    assert sights(found).count(Sight.NAMED) < 20
    assert all(Obstacle.DEFERRED in shown.obstacles for shown in found.skills if shown.entry in DESCRIBING)


def test_names_in_the_lead_are_seen_before_a_search() -> None:
    texts, found = of(FEW, "codex")
    assert "3 skills: skill-000, skill-001, skill-002." in texts.instructions.at_once
    assert sights(found) == [Sight.NAMED] * 3
    assert [shown.obstacles[0] for shown in found.skills] == [Obstacle.DEFERRED] * 3


def test_qwen_shows_160_characters_of_each_description_and_the_instructions_whole() -> None:
    texts, found = of(FEW, "qwen")
    assert len(texts.description.at_once) == len(texts.find_skills.at_once) == 160
    assert texts.description.loaded == texts.description.text
    assert texts.instructions.at_once == texts.instructions.text
    assert sights(found) == [Sight.DESCRIBED] * 3
    assert [shown.obstacles for shown in found.skills] == [()] * 3


def test_claude_code_loads_our_tools_at_once_and_would_else_show_bare_names() -> None:
    texts, found = of(MANY, "claude-code")
    assert not texts.search.deferred
    assert texts.description.at_once == texts.description.loaded == texts.description.text
    assert utf16_length(texts.instructions.text) <= 4096
    assert {Sight.DESCRIBED} == set(sights(found)[:150])
    claude = find_client("claude-code")._replace(always_load=NO)
    texts, found = of(MANY, claude)
    assert (texts.search.deferred, texts.search.leaves, texts.description.at_once) == (True, 0, "")
    # What its search loads, it shows further.
    assert texts.description.loaded == texts.description.text
    assert Sight.TOOL_SEARCH in sights(found)


def test_an_earlier_version_shows_less() -> None:
    now, then = (
        sights(of(MANY, client)[1]).count(Sight.DESCRIBED) for client in ("claude-code", "claude-code@2.1.200")
    )
    assert then < now
    assert utf16_length(of(MANY, "claude-code@2.1.200")[0].description.text) <= 2048


@pytest.mark.parametrize("key", ["copilot-cli", "cline", "continue", "mcp", "google-adk"])
def test_a_client_that_never_shows_instructions_has_the_description_alone(key: str) -> None:
    texts, found = of(FEW, key)
    assert texts.instructions.text
    assert texts.instructions.at_once == texts.instructions.loaded == ""
    assert sights(found) == [Sight.DESCRIBED] * 3


def test_the_description_and_the_instructions_of_a_client_that_shows_both_hold_different_skills() -> None:
    _, found = of(MANY, "claude-code")
    described = sights(found).count(Sight.DESCRIBED)
    (alone,) = (sights(of(MANY, client_with(description=Limit(4096, SOMEWHERE)))[1]),)
    assert described > alone.count(Sight.DESCRIBED)


def test_names_that_the_client_itself_would_refuse_have_a_reason_of_their_own() -> None:
    # The layouts for known clients list no names then.
    for checks, expected in ((YES, Obstacle.REFUSED_NAME), (NO, Obstacle.BEYOND_ENUM)):
        client = client_with(schema=Fact(1400, SOMEWHERE), redefines=YES, checks_enum=checks)
        _, found = of(MANY, client)
        outside = [shown for shown in found.skills if not shown.in_enum]
        assert 0 < len(outside) < 200
        assert all(expected in shown.obstacles for shown in outside)


@pytest.mark.parametrize("key", ["qwen", "gemini"])
@pytest.mark.parametrize("catalog", [FEW, MANY], ids=["few", "many"])
def test_no_known_client_refuses_a_name(key: str, catalog: Catalog) -> None:
    for limit in (1000, 10):
        _, found = of(catalog, key, enum_limit=limit)
        reasons = {obstacle for shown in found.skills for obstacle in shown.obstacles}
        assert reasons <= {Obstacle.BEYOND_BUDGET, Obstacle.NO_PROMPTS}


def test_where_no_names_are_in_the_schema_none_is_beyond_it() -> None:
    _, found = of(FEW, "qwen")
    assert not any(shown.in_enum for shown in found.skills)
    assert all(Obstacle.BEYOND_ENUM not in shown.obstacles for shown in found.skills)


def test_an_answer_of_a_tool_search_that_is_too_long_shows_no_entry() -> None:
    client = client_with(lazy_tools=YES, deferred=Limit(0, SOMEWHERE), search_answer=Limit(2000, SOMEWHERE))
    texts, found = of(MANY, client)
    assert texts.search.is_too_long
    assert texts.description.loaded == ""
    reasons = {shown.skill.key: shown.obstacles for shown in found.skills}
    assert Obstacle.LONG_ANSWER in reasons["skill-000"]
    assert set(sights(found)) == {Sight.FIND_SKILLS, Sight.NAMED}


def test_of_a_client_that_defers_and_of_which_no_more_is_known_no_tool_is_taken_to_be_seen() -> None:
    texts, _ = of(FEW, "cursor")
    assert (texts.search.deferred, texts.search.leaves, texts.description.at_once) == (True, None, "")


def test_only_find_skills_finds_what_no_text_names() -> None:
    _, found = of(MANY, "claude-code", enum_limit=1, catalog_budget=1000)
    assert sights(found).count(Sight.FIND_SKILLS) > 100
    assert sights(found)[0] is Sight.DESCRIBED


def test_a_skill_that_is_not_for_models_is_in_no_sight() -> None:
    _, found = of(Catalog((skill_of("a", disable_model_invocation=True), skill_of("b"))), "zed")
    assert {shown.skill.key: shown.sight for shown in found.skills} == {"a": None, "b": Sight.DESCRIBED}


@given(st.lists(st.text(min_size=1, max_size=40), max_size=12), st.integers(0, 400))
def test_a_cut_is_in_units_of_javascript_and_sight_agrees_with_entries(names: list[str], cut: int) -> None:
    catalog = Catalog(tuple(skill_of(f"{number}-{name}", "\U0001f600" * 20) for number, name in enumerate(names)))
    limit = Limit(cut, SOMEWHERE)
    texts, found = of(catalog, client_with(instructions=limit))
    assert utf16_length(texts.instructions.at_once) <= cut
    assert texts.instructions.text.startswith(texts.instructions.at_once)
    for shown in found.skills:
        assert (shown.sight is Sight.DESCRIBED) == (shown.entry in DESCRIBING)


def test_a_name_within_which_a_client_cuts_is_not_seen() -> None:
    text = "Call it. 9 skills, such as one, two; on three.\nPinned or used most: four, five."
    assert names_in(text, text) == {"one", "two", "three", "four", "five"}
    assert names_in(text, text[:33]) == {"one"}
    assert names_in(text, text[:42]) == {"one", "two"}
    assert names_in(text, text[:50]) == {"one", "two", "three"}
    assert names_in(whole := "2 skills: one, two.", whole) == {"one", "two"}


def test_a_skills_own_text_is_no_list_of_names() -> None:
    assert names_in(entry := "- a: Skills on: b, c. 2 skills: d.", entry) == set()
