"""Triggers: which skills a message calls by its words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import always_on, triggered_by
from skills_core.selection.fulltext import phrase

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog

WORDS = st.text(st.characters(categories=("Ll", "Lu", "Nd"), max_codepoint=0x12F), min_size=1, max_size=8)
TOOL = "tools: [{name: t, description: d, parameters: {}}]"


def matched(catalog: Catalog, message: str) -> dict[str, tuple[str, ...]]:
    return {each.skill.key: each.triggers for each in triggered_by(message, catalog.active)}


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ("commit", "Please COMMIT this."),
        ("Commit", "commit"),
        ("code review", "a code review, please"),
        ("code review", "CODE\n  Review"),
        ("code review", "code-review"),
        ("code-review", "code_review"),
        ("résumé", "my resume"),
        ("STRASSE", "die straße"),
        ("c++", "in C++, please"),
        ("node.js", "Node.js"),
        (".net", "a .NET app"),
        ("提交", "请提交代码"),
        ("커밋", "커밋해줘"),
        ("pull request", "(pull request)"),
    ],
)
def test_a_trigger_is_found_as_whole_words_whatever_the_case_and_the_gaps(
    catalog_of: Callable[..., Catalog], trigger: str, message: str
) -> None:
    catalog = catalog_of(one={"fields": f'triggers: ["{trigger}"]'})
    assert matched(catalog, message) == {"one": (trigger,)}


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ("commit", "committed"),
        ("commit", "recommit"),
        ("code review", "review code"),
        ("code review", "code to review"),
        ("code review", "code. Review"),
        ("c++", "vitamin c"),
        ("2", "12"),
        ("提交", "提和交"),
        ("- _", "- _"),
        ("commit", ""),
    ],
)
def test_partial_words_other_orders_and_other_signs_do_not_match(
    catalog_of: Callable[..., Catalog], trigger: str, message: str
) -> None:
    assert matched(catalog_of(one={"fields": f'triggers: ["{trigger}"]'}), message) == {}


def test_a_message_triggers_every_skill_with_a_trigger_in_it_in_order(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(
        b={"fields": "triggers: [git, commit, push]"}, a={"fields": "triggers: [push]"}, c={"fields": "triggers: [x]"}
    )
    assert matched(catalog, "commit and push") == {"a": ("push",), "b": ("commit", "push")}


def test_a_skill_with_tools_of_its_own_is_neither_triggered_nor_always_on(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(
        tools={"fields": f"triggers: [git]\n{TOOL}"},
        star={"fields": f'triggers: ["*"]\n{TOOL}'},
        flag={"fields": f"metadata: {{jdai: {{always: true}}}}\n{TOOL}"},
        none={"fields": "triggers: [git]\ntools: []"},
    )
    assert matched(catalog, "git") == {"none": ("git",)}
    assert [skill.key for skill in catalog.active if always_on(skill)] == []


def test_the_star_and_the_flag_of_jdai_are_always_on_and_need_no_other_trigger(
    catalog_of: Callable[..., Catalog],
) -> None:
    catalog = catalog_of(
        star={"fields": 'triggers: ["*", git]'},
        flag={"fields": "metadata: {jdai: {always: true}}"},
        other={"fields": "triggers: [git]"},
    )
    assert [skill.key for skill in catalog.active if always_on(skill)] == ["flag", "star"]
    assert matched(catalog, "git *") == {"other": ("git",)}


@given(st.lists(WORDS, min_size=1, max_size=4), st.lists(WORDS, max_size=5), st.lists(WORDS, max_size=5), st.data())
def test_adjacent_words_are_found_anywhere(
    words: list[str], before: list[str], after: list[str], data: st.DataObject
) -> None:
    gaps = st.sampled_from([" ", "  ", "\n", "-", "_", "\u00a0"])
    text = "".join(word + data.draw(gaps) for word in [*before, *words, *after])
    assert phrase(" ".join(words)) in phrase(text.upper() if text.isascii() else text)


@given(st.text())
def test_any_text_is_a_phrase_and_contains_itself(text: str) -> None:
    found = phrase(text)
    assert found.startswith(" ")
    assert phrase(found) == found


@given(WORDS, WORDS)
def test_a_word_is_no_part_of_a_longer_one(word: str, more: str) -> None:
    longer = word + more
    assert phrase(word) not in phrase(longer)
