"""The topics of a catalog: names while they fit, else the words of most skills."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.listing import catalog_texts
from server.listing.catalog_texts import MAX_SKILLS, topic_of, topics_within
from skills_core.rendering.catalog import utf16_length
from skills_core.rendering.escaping import escape_line
from tests.skill_values import skill_of

NAMES = st.lists(st.text(min_size=1, max_size=80), max_size=30)


def test_names_are_topics_while_all_of_them_fit() -> None:
    skills = [skill_of("release-notes"), skill_of("csv_insights"), skill_of("team/refunds")]
    assert topics_within(100, skills) == "release notes, csv insights, team refunds"


def test_the_words_of_most_skills_stand_for_names_that_do_not_fit() -> None:
    skills = [skill_of(f"{word}-check-{number}") for number in range(20) for word in ("invoice", "kafka")]
    assert topics_within(60, skills) == "check, invoice, kafka"


def test_triggers_are_words_too_and_common_words_are_none() -> None:
    skills = [skill_of(f"use-the-skill-{number}", triggers=("pull request", "*")) for number in range(20)]
    assert topics_within(60, skills) == "pull, request"


def test_names_of_the_first_skills_precede_the_words() -> None:
    skills = [skill_of(f"invoice-check-{number}") for number in range(20)]
    assert topics_within(60, skills, [skills[7]]) == "invoice check 7"
    assert topics_within(60, [*skills, skill_of("kafka")], [skills[7]]) == "invoice check 7, kafka"


@pytest.mark.parametrize("name", ["\U0001f680", "7", "x"])
def test_names_without_words_are_topics_themselves(name: str) -> None:
    skills = [skill_of(f"{name}{number}" if name != "x" else chr(ord("a") + number % 26)) for number in range(200)]
    topics = topics_within(40, skills)
    assert topics
    assert topics.split(", ")[0] == topic_of(skills[0])


def test_a_word_that_exceeds_the_room_hides_no_other() -> None:
    skills = [skill_of("a" * 40_000), *(skill_of(f"kafka-{number}") for number in range(50))]
    assert topics_within(50, skills) == "kafka"
    assert topics_within(50, skills, skills[:1]) == "kafka"


def test_the_parts_of_a_name_form_none_of_our_tags() -> None:
    for name in ("<skill-x>", "</skill.x>", "<_skill>", "</available-skills>"):
        topic = topic_of(skill_of(name))
        assert escape_line(topic) == topic


@given(NAMES, st.integers(-50, 400), st.integers(0, 3))
def test_topics_fit_stand_on_one_line_and_are_distinct(names: list[str], room: int, first: int) -> None:
    skills = [skill_of(name) for name in names]
    topics = topics_within(room, skills, skills[:first])
    assert utf16_length(topics) <= max(room, 0)
    assert "\n" not in topics
    assert escape_line(topics) == topics


@given(NAMES)
def test_topics_do_not_depend_on_the_order_of_hashes(names: list[str]) -> None:
    assert topics_within(60, map(skill_of, names)) == topics_within(60, map(skill_of, names))


def test_of_a_large_catalog_the_words_of_an_added_skill_alone_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    skills = [skill_of(f"kafka-known-{number}") for number in range(MAX_SKILLS)]
    topics_within(60, skills)
    read: list[str] = []
    words_in = catalog_texts._distinct_words

    def noted(name: str, triggers: tuple[str, ...]) -> set[str]:
        read.append(name)
        return words_in(name, triggers)

    monkeypatch.setattr(catalog_texts, "_distinct_words", noted)
    topics_within(60, [skill_of("kafka-added"), *skills])
    assert read == ["kafka-added"]


def test_the_names_of_a_bounded_number_of_skills_are_read() -> None:
    read: list[int] = []

    def skills() -> object:
        for number in range(MAX_SKILLS * 2):
            read.append(number)
            yield skill_of(f"kafka-{number}")

    assert topics_within(60, skills()) == "kafka"  # type: ignore[arg-type]
    assert len(read) <= MAX_SKILLS + 1
