"""What a client shows of this server's skills."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.visibility.served_listing import (
    DESCRIBING,
    EntryState,
    Obstacle,
    ServedSkills,
    Sight,
    served_skills,
    shown_entries,
    tokens,
)
from server.clients.profile import ClientProfile, Evidence, Fact, Limit
from server.listing.snapshot import Snapshot
from skills_core.catalog.catalog import Catalog
from skills_core.rendering.catalog import entry_beginning, render_catalog, render_entry
from tests.server.settings import make_settings
from tests.skill_values import catalog_of, skill_of

SOMEWHERE = Evidence("here", "2026-01-01")
TEXTS = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=300), max_size=12)


def client_with(cut: int | None = None, schema: int | None = None, *, prompts: bool | None = None) -> ClientProfile:
    return ClientProfile(
        "test",
        "a client",
        description=Limit(cut, SOMEWHERE) if cut else None,
        schema=Fact(schema, SOMEWHERE) if schema else None,
        prompts=None if prompts is None else Fact(prompts, SOMEWHERE),
    )


def shown_by(
    catalog: Catalog, client: ClientProfile, catalog_budget: int = 32_000, enum_limit: int = 1000
) -> ServedSkills:
    return served_skills(Snapshot(catalog, make_settings(catalog_budget=catalog_budget, enum_limit=enum_limit)), client)


def sights(found: ServedSkills) -> Counter[Sight | None]:
    return Counter(shown.sight for shown in found.skills)


def counts(found: ServedSkills) -> Counter[EntryState]:
    return Counter(shown.entry for shown in found.skills)


@given(TEXTS, st.integers(500, 6000), st.integers(500, 6000))
def test_every_skill_is_whole_or_cut_or_missing_with_a_reason(texts: list[str], cut: int, budget: int) -> None:
    catalog = catalog_of(*texts)
    found = shown_by(catalog, client_with(cut), catalog_budget=budget)
    assert [shown.skill for shown in found.skills] == list(catalog.offered)
    assert sum(counts(found).values()) == len(texts)
    for shown in found.skills:
        assert (shown.entry in DESCRIBING) == (not shown.obstacles)
        assert (Obstacle.BEYOND_BUDGET in shown.obstacles) == (shown.entry is EntryState.MISSING)


@given(TEXTS, st.integers(600, 3000), st.integers(0, 2000))
def test_a_larger_budget_never_describes_fewer(texts: list[str], cut: int, more: int) -> None:
    catalog = catalog_of(*texts)
    less, room = (counts(shown_by(catalog, client_with(size))) for size in (cut, cut + more))
    assert sum(room[state] for state in DESCRIBING) >= sum(less[state] for state in DESCRIBING)


@given(TEXTS, st.integers(0, 5000))
def test_an_entry_is_whole_exactly_where_all_of_it_is_before_the_cut(texts: list[str], cut: int) -> None:
    catalog = catalog_of(*texts)
    text = render_catalog(catalog, 100_000).text
    found = shown_entries(text, cut, {entry_beginning(skill) for skill in catalog.offered})
    for skill in catalog.offered:
        beginning = entry_beginning(skill)
        assert (beginning in found and found[beginning].state in DESCRIBING) == (render_entry(skill) in text[:cut])
        assert (beginning in found) == (text.index(f"\n{beginning}") + 1 < cut)


@given(st.text(min_size=1, max_size=30).filter(str.isprintable))
def test_an_entry_is_known_by_its_skills_key_whatever_is_in_it(name: str) -> None:
    catalog = Catalog((skill_of(name),))
    assert [shown.entry for shown in shown_by(catalog, client_with()).skills] == [EntryState.WHOLE]


def test_a_client_without_a_known_cut_gets_what_the_settings_say() -> None:
    catalog = catalog_of(*["word " * 40] * 10)
    assert shown_by(catalog, client_with(), catalog_budget=5000).budget == 5000
    assert shown_by(catalog, client_with(2048), catalog_budget=5000).budget == 2048
    assert shown_by(catalog, client_with(2048), catalog_budget=1000).budget == 1000


def test_a_client_that_drops_large_schemas_is_shown_fewer_names_and_loses_no_skill() -> None:
    catalog = catalog_of(*["Does a thing."] * 300)
    found = shown_by(catalog, client_with(schema=3000))
    assert found.texts.schema <= 3000
    named = [shown.in_enum for shown in found.skills]
    assert named == sorted(named, reverse=True)
    assert 50 < sum(named) < 300
    assert [Obstacle.BEYOND_ENUM in shown.obstacles for shown in found.skills] == [not each for each in named]


def test_names_beyond_the_enum_are_reported() -> None:
    found = shown_by(catalog_of("One.", "Two.", "Three."), client_with(), enum_limit=2)
    assert [shown.obstacles for shown in found.skills] == [(), (), (Obstacle.BEYOND_ENUM,)]


@pytest.mark.parametrize(
    ("client", "obstacles"),
    [
        (client_with(prompts=True), ()),
        (client_with(prompts=None), ()),
        (client_with(prompts=False), (Obstacle.NO_PROMPTS,)),
    ],
)
def test_prompts_are_shown_not_shown_or_not_known(client: ClientProfile, obstacles: tuple[Obstacle, ...]) -> None:
    (shown,) = shown_by(catalog_of("One."), client).skills
    assert (shown.prompt, shown.obstacles) == (client.prompts.value if client.prompts else None, obstacles)


def test_a_skills_own_declarations_are_reasons() -> None:
    hidden = skill_of("for-users", disable_model_invocation=True)
    silent = skill_of("for-models", user_invocable=False)
    found = shown_by(Catalog((hidden, silent)), client_with(prompts=True))
    assert [(s.skill.key, s.entry, s.prompt, s.obstacles) for s in found.skills] == [
        ("for-models", EntryState.WHOLE, False, (Obstacle.NOT_FOR_USERS,)),
        ("for-users", EntryState.MISSING, True, (Obstacle.NOT_FOR_MODELS,)),
    ]


def test_no_skills_are_no_tool_and_nothing_shown() -> None:
    found = shown_by(Catalog(), client_with(2048))
    assert (found.skills, found.texts.description.text) == ((), "")


@pytest.mark.parametrize(("characters", "expected"), [(0, 0), (1, 1), (4, 1), (5, 2), (2048, 512)])
def test_a_token_is_four_characters(characters: int, expected: int) -> None:
    assert tokens(characters) == expected
