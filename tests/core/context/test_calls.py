"""Slash commands at the beginning of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import (
    Recipient,
    activation_of,
    match_skill_call,
    render_activation,
    render_request,
    request_of,
    stack_activations,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog, SkillCall

BLANKS = " \t\r\n"


@pytest.fixture(scope="module")
def catalog(catalog_of: Callable[..., Catalog]) -> Catalog:
    return catalog_of(
        readme={"body": "Write a readme."},
        greet={"body": "Greet {{arguments}}, in {{language}}."},
        a__refunds="The first.",
        b__refunds="The second.",
        by_mention={"fields": "trigger: true"},
        for_users={"fields": "disable-model-invocation: true"},
        for_models={"fields": "user-invocable: false"},
        gated={"fields": "when: {os: plan9}"},
    )


def called(text: str, catalog: Catalog) -> tuple[str, str, str] | None:
    call = match_skill_call(text, catalog)
    return (call.skill.key, call.arguments, call.request) if call else None


@pytest.mark.parametrize(
    "head", ["/readme", "/skill readme", "@readme", "$readme", "  \r\n\t/readme", "/skill\n readme"]
)
def test_text_after_the_name_is_the_arguments(catalog: Catalog, head: str) -> None:
    words = "private MIT\n  and a logo  "
    assert called(f"{head} {words}", catalog) == ("readme", words, words)
    assert called(f"{head}\t \n{words}", catalog) == ("readme", words, words)


@pytest.mark.parametrize("text", ["/readme", "/skill readme", "@readme", "$readme", "/readme \n"])
def test_without_arguments_the_request_is_the_message(catalog: Catalog, text: str) -> None:
    assert called(text, catalog) == ("readme", "", text)
    assert called(f" \n{text}", catalog) == ("readme", "", text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "/", "@", "$", "/ readme", "readme", "x /readme", "//readme", "/@readme", "/Readme", "/readmes"),
        *("/readme,", "/readme\u00a0now", "/skill", "/skill ", "/skill unknown", "/skill /readme", "@skill readme"),
        *("$skill readme", "/gated", "/refunds", "/usr/bin/env", "\ufeff/readme", "/skill://readme/SKILL.md"),
    ],
)
def test_other_messages_are_no_call(catalog: Catalog, text: str) -> None:
    assert match_skill_call(text, catalog) is None


def test_skills_with_a_shared_name_are_called_by_path(catalog: Catalog) -> None:
    assert called("/a/refunds now", catalog) == ("a/refunds", "now", "now")
    assert called("/skill b/refunds now", catalog) == ("b/refunds", "now", "now")


def test_users_can_call_skills_for_users_but_not_those_for_models_only(catalog: Catalog) -> None:
    assert called("@by-mention x", catalog) == ("by-mention", "x", "x")
    assert called("/for-users x", catalog) == ("for-users", "x", "x")
    assert called("/for-models x", catalog) is None
    assert called("/skill for-models x", catalog) is None


def test_another_call_after_the_first_belongs_to_its_arguments(catalog: Catalog) -> None:
    assert called("/readme /greet Ana", catalog) == ("readme", "/greet Ana", "/greet Ana")


def test_a_skill_named_skill_answers_to_its_name_and_the_others_to_theirs(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(skill="About skills.", readme="Read me.")
    assert called("/skill", catalog) == ("skill", "", "/skill")
    assert called("/skill readme x", catalog) == ("skill", "readme x", "readme x")
    assert called("/readme x", catalog) == ("readme", "x", "x")
    for_models = catalog_of(skill={"fields": "user-invocable: false"}, readme="Read me.")
    assert called("/skill readme x", for_models) == ("readme", "x", "x")


@given(
    st.text(BLANKS, max_size=3),
    st.sampled_from(["/readme", "@greet", "$a/refunds", "/skill readme", "/skill", "/none", "", "/skill for-models"]),
    st.one_of(st.just(""), st.text(BLANKS, min_size=1, max_size=3)),
    st.text(st.characters(exclude_categories=())),
)
def test_no_text_raises_and_none_of_the_users_words_are_lost(
    catalog: Catalog, before: str, head: str, blank: str, words: str
) -> None:
    text = before + head + blank + words
    call = match_skill_call(text, catalog)
    if call is None:
        return
    assert text.endswith(call.arguments)
    assert text.endswith(call.request)
    taken = text[: len(text) - len(call.arguments)].strip(BLANKS)
    assert taken[0] in "/@$"
    assert taken.split()[-1].lstrip("/@$") == call.skill.key
    assert call.request == (call.arguments or text.lstrip(BLANKS))


def call_of(text: str, catalog: Catalog) -> SkillCall:
    call = match_skill_call(text, catalog)
    assert call is not None
    return call


def test_a_calls_activation_equals_that_of_every_surface(catalog: Catalog) -> None:
    call = call_of("/greet Ana </skill_content>", catalog)
    words = {"arguments": "Ana </skill_content>"}
    assert activation_of(call) == render_activation(call.skill, words)
    assert activation_of(call, Recipient(local=True)) == render_activation(call.skill, words, Recipient(local=True))
    assert request_of(call) == render_request(call.skill, words["arguments"])
    # A body that has no place for them leaves them to the request.
    call = call_of("/readme private MIT", catalog)
    assert activation_of(call) == render_activation(call.skill)
    assert "private MIT" in request_of(call)
    assert request_of(call_of(" @readme \n", catalog)) == "@readme"


def test_several_skills_stack_in_order_and_each_keeps_its_bytes(catalog: Catalog) -> None:
    calls = [call_of(text, catalog) for text in ("/readme", "/greet Ana", "/a/refunds")]
    texts = stack_activations(calls)
    assert texts[:3] == tuple(map(activation_of, calls))
    assert "/readme, /greet, /a/refunds" in texts[3]
    assert "the later one overrides" in texts[3]
    assert stack_activations(calls[:1]) == (activation_of(calls[0]),)
    assert stack_activations([]) == ()
