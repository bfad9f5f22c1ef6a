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


@pytest.fixture(scope="module")
def translators(catalog_of: Callable[..., Catalog]) -> Catalog:
    return catalog_of(
        translate={"body": "Translate to {{lang}} in the tone {{tone}}. {{arguments}}"},
        skill={"fields": "user-invocable: false"},
        plain={"body": "No parameters."},
    )


@pytest.mark.parametrize(
    ("words", "values", "rest"),
    [
        (
            'lang=de tone="very polite" rest of the request',
            {"lang": "de", "tone": "very polite"},
            "rest of the request",
        ),
        ("lang=de", {"lang": "de"}, ""),
        ("lang=de\n tone='it is \"so\"'\n\n  two  lines\n", {"lang": "de", "tone": 'it is "so"'}, "two  lines\n"),
        (r'lang="a \"b\" \\ C:\dir"', {"lang": r'a "b" \ C:\dir'}, ""),
        ("lang=it's=fine x", {"lang": "it's=fine"}, "x"),
        ("lang=de lang=fr x", {"lang": "fr"}, "x"),
        ('lang="" x', {"lang": ""}, "x"),
        # Only parameters of the skill, only before the request, and only whole words.
        ("lang=de other=1 tone=dry", {"lang": "de"}, "other=1 tone=dry"),
        ("other=1 lang=de", {}, "other=1 lang=de"),
        ("please lang=de", {}, "please lang=de"),
        ("arguments=x y", {}, "arguments=x y"),
        ("Lang=de x", {}, "Lang=de x"),
        *(
            (text, {}, text)
            for text in ("lang= de", "lang =de", 'lang="de', "lang='de", 'lang="de"x', "lang='d'e", "lang")
        ),
    ],
)
@pytest.mark.parametrize("head", ["/translate", "/skill translate", "@translate", "$translate"])
def test_key_value_words_fill_the_parameters_and_the_rest_stays_the_request(
    translators: Catalog, head: str, words: str, values: dict[str, str], rest: str
) -> None:
    call = call_of(f"{head} {words}", translators)
    assert (dict(call.parameters), call.arguments) == (values, rest)
    assert call.request == (rest or f"{head} {words}")
    given = {name: value for name, value in values.items() if value} | ({"arguments": rest} if rest else {})
    assert activation_of(call) == render_activation(call.skill, given)


def test_a_skill_without_parameters_takes_no_values(translators: Catalog) -> None:
    call = call_of("/plain lang=de x", translators)
    assert (dict(call.parameters), call.arguments) == ({}, "lang=de x")


def test_a_message_with_very_many_values_is_read_in_one_pass(translators: Catalog) -> None:
    call = call_of(f"/translate {'lang=de ' * 100_000}end", translators)
    assert (dict(call.parameters), call.arguments) == ({"lang": "de"}, "end")
    open_quotes = 'lang="' * 100_000
    assert call_of(f"/translate {open_quotes}", translators).arguments == open_quotes


QUOTABLE = st.text(st.characters(exclude_categories=()))


def quoted(value: str) -> str:
    return '"{}"'.format(value.replace("\\", "\\\\").replace('"', '\\"'))


@given(QUOTABLE, QUOTABLE, QUOTABLE.map(lambda text: text.lstrip(BLANKS)))
def test_every_value_can_be_quoted(translators: Catalog, lang: str, tone: str, rest: str) -> None:
    call = call_of(f"/translate lang={quoted(lang)} tone={quoted(tone)} {rest}", translators)
    again = {"lang", "tone"} & {rest.partition("=")[0]}
    if not again:
        assert (dict(call.parameters), call.arguments) == ({"lang": lang, "tone": tone}, rest)


@given(st.lists(st.sampled_from(["lang", "=", '"', "'", "\\", " ", "\n", "x", "tone=", "lang=de "])).map("".join))
def test_no_words_raise_and_the_request_is_the_end_of_the_message(translators: Catalog, words: str) -> None:
    text = f"/translate {words}"
    call = call_of(text, translators)
    assert text.endswith(call.arguments)
    assert set(call.parameters) <= {"lang", "tone"}
    if not call.parameters:
        assert call.arguments == words.lstrip(BLANKS)
    # What was taken consists of nothing but values.
    taken = words.lstrip(BLANKS).removesuffix(call.arguments)
    assert bool(taken.strip(BLANKS)) is bool(call.parameters)
