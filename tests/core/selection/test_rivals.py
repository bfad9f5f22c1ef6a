"""Which pairs of skills a model may confuse. The skills have the shape of public ones, in other words."""

from __future__ import annotations

import sqlite3

import pytest

from skills_core.selection import rivals as module
from skills_core.selection.rivals import CatalogWords, Rivals
from skills_core.skills.skill import Skill
from tests.skill_values import skill_of

Pair = tuple[tuple[str, str], tuple[str, str]]

WORDS = [
    one + other
    for one in ("an", "bel", "cor", "dor", "fen", "gar", "har")
    for other in ("kade", "lot", "mist", "pell", "rund")
]

RIVALS: list[Pair] = [
    (
        ("skill-creator", "Build skills or change them, run evals on a skill, and sharpen the text of a skill."),
        ("writing-skills", "Use before you ship new skills, while editing skills, or to see whether skills hold."),
    ),
    (
        ("plot-basics", "Draw charts and figures in full detail. For statistical figures, plot-stats is faster."),
        ("plot-stats", "Statistical charts and figures with good defaults, over plot-basics."),
    ),
    (
        ("sql-tuning", "Find slow SQL queries, read their plans, and add the missing index."),
        ("query-doctor", "Use when a SQL query is slow: explains its plan and proposes an index."),
    ),
    (
        ("machine-text-cleaner", "Remove the marks of machine prose from a draft."),
        ("plain-draft", "Rewrites a draft so that the prose has no marks of a machine."),
    ),
]

OTHERS: list[Pair] = [
    (
        ("vue-expert", "Expert guide for Vue apps. Use when the user asks to create components or stores."),
        ("content-calendar", "Expert guide for posts. Use when the user asks to create a month of social posts."),
    ),
    (
        (
            "contract-templates",
            "Create complete employment contracts following best practices. Use when drafting offers.",
        ),
        (
            "service-templates",
            "Create production-ready web services following best practices. Use when starting an API.",
        ),
    ),
    (
        ("memory-forensics", "Master the analysis of memory dumps of infected machines."),
        ("memory-safety", "Master ownership and smart pointers for systems code without leaks of memory."),
    ),
    (
        (
            "store-upload",
            "Upload clips and thumbnails to the video platform. Do not use for playing songs; use store-music.",
        ),
        ("store-music", "Play, pause and queue songs in the browser."),
    ),
]


def skills(pair: Pair) -> list[Skill]:
    return [skill_of(name, text) for name, text in pair]


def alike(catalog: list[Skill]) -> set[frozenset[str]]:
    return {frozenset((each.skill.key, each.rival.key)) for each in CatalogWords(catalog).rivals() if each.is_alike}


def names(pair: Pair) -> frozenset[str]:
    return frozenset(name for name, _ in pair)


@pytest.mark.parametrize("pair", RIVALS, ids=lambda pair: pair[0][0])
def test_rivals_are_alike_alone(pair: Pair) -> None:
    assert alike(skills(pair)) == {names(pair)}


@pytest.mark.parametrize("pair", OTHERS, ids=lambda pair: pair[0][0])
def test_skills_that_share_the_form_of_descriptions_are_not_alike(pair: Pair) -> None:
    assert alike(skills(pair)) == set()


def test_the_same_pairs_are_found_among_all_of_them() -> None:
    catalog = [skill for pair in (*RIVALS, *OTHERS) for skill in skills(pair)]
    assert alike(catalog) == {names(pair) for pair in RIVALS}


def test_words_that_most_skills_of_a_catalog_have_count_for_nothing() -> None:
    catalog = [skill_of(f"ledger-{word}", f"Ledger posting for {word}.") for word in WORDS]
    assert list(CatalogWords(catalog).rivals()) == []
    words = CatalogWords(catalog)
    assert not words.has_rare(["ledger", "posting"])
    assert not words.has_rare(["skills", "creating"])
    assert words.has_rare(WORDS[:1])


def test_both_directions_count() -> None:
    """A short description is a part of a long one, which is about much else."""
    short = skill_of("resize", "Resize pictures.")
    long = skill_of("studio", f"Resize pictures, {', '.join(WORDS[:30])}.")
    (pair,) = CatalogWords([short, skill_of("crop", "Crop pictures and resize them.")]).rivals()
    assert pair.is_alike
    assert not any(each.is_alike for each in CatalogWords([short, long]).rivals())


def test_a_skill_is_near_few_others_however_many_are_like_it() -> None:
    catalog = [skill_of(f"copy-{number:03}", "Stamp parcels with postage.") for number in range(30)]
    assert len(list(CatalogWords(catalog).rivals())) <= module.NEAREST * len(catalog)


def test_what_a_skill_is_not_for_does_not_count() -> None:
    one = skill_of("harvest", "Pick apples. Do not use for pressing cider or bottling juice.")
    other = skill_of("press", "Pressing cider and bottling juice.")
    assert list(CatalogWords([one, other]).rivals()) == []


def test_triggers_count_and_bodies_do_not() -> None:
    one = skill_of("alpha", "First.", "deploy the gateway", triggers=("restart gateway nodes", "drain the gateway"))
    two = skill_of("beta", "Second.", "x", triggers=("gateway nodes restart", "drain the gateway"))
    three = skill_of("gamma", "Third.", "restart gateway nodes, drain the gateway")
    (pair,) = CatalogWords([one, two, three]).rivals()
    assert {pair.skill.key, pair.rival.key} == {"alpha", "beta"}


def test_the_shares_are_those_of_both_directions() -> None:
    (pair,) = CatalogWords(skills(RIVALS[0])).rivals()
    assert isinstance(pair, Rivals)
    assert pair.skill.key == "writing-skills"
    assert pair.share > pair.overlap > pair.back
    assert pair.overlap**2 == pytest.approx(pair.share * pair.back)
    assert "skill" in " ".join(pair.words)


def test_words_are_whole_without_a_full_text_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise sqlite3.OperationalError("no such module: fts5")

    monkeypatch.setattr(module, "Stems", refuse)
    one, two = (
        skill_of("slow-query", "Explain a slow query."),
        skill_of("query-plan", "Explain the plan of a slow query."),
    )
    assert [{each.skill.key, each.rival.key} for each in CatalogWords([one, two]).rivals()] == [
        {"slow-query", "query-plan"}
    ]
