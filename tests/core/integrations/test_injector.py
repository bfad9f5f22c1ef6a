"""An injector puts the best skill of a project before what a user says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skills_core import Environment, Injector, Message, SelectionPolicy, TextPart, select_block

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ANY = Environment(os="linux", has_bin=lambda _: True)


@pytest.fixture
def root(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    write_skill(tmp_path, "search", description="Search code", body="Use rg first.")
    write_skill(tmp_path, "by-hand", description="Search by hand", fields="trigger: true")
    return tmp_path


def test_an_injector_of_a_root_injects_into_user_messages(root: Path) -> None:
    injector = Injector.from_root(root, ANY)
    found = injector.inject(Message("user", (TextPart("Please search this repository quickly"),)))
    assert found.match is not None
    assert found.message.text == "[skill:search]\nUse rg first.\n[/skill]\n\nPlease search this repository quickly"
    other = Message("assistant", (TextPart("Please search"),))
    assert injector.inject(other).message is other


def test_a_block_is_selected_for_a_query_alone(root: Path) -> None:
    injector = Injector.from_root(root, ANY)
    block = injector.select("search")
    assert block is not None
    assert (block.match.skill.name, block.text) == ("search", "[skill:search]\nUse rg first.\n[/skill]")
    assert block.before("Now.") == "[skill:search]\nUse rg first.\n[/skill]\n\nNow."
    assert select_block("search", injector.ranking) == block
    assert injector.select("nothing that fits") is None


def test_policy_and_limit_apply(root: Path) -> None:
    strict = Injector.from_root(root, ANY, policy=SelectionPolicy(min_score=1000))
    assert strict.select("search") is None
    short = Injector.from_root(root, ANY, max_injected_chars=3).select("search")
    assert short is not None
    assert short.text == "[skill:search]\nUse\n[/skill]"


@pytest.mark.parametrize("query", ["", " \n"])
def test_a_blank_query_selects_nothing_even_if_a_tag_would(
    query: str, tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(tmp_path, "a", fields="tags: [x]")
    policy = SelectionPolicy(include_tags=("x",), min_score=0)
    assert Injector.from_root(tmp_path, ANY, policy=policy).select(query) is None
