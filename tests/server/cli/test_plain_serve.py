"""A plain command line of `serve` is parsed as the command-line library parses it; any other is left to the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from server.cli import plain_serve
from server.cli.app import app
from server.cli.plain_serve import parse_plain_words
from server.config.settings import OptionalTool, Transport

PLAIN: dict[str, tuple[list[Path], dict[str, object]] | None] = {
    "": ([], {}),
    "a b": ([Path("a"), Path("b")], {}),
    "a --strict --transport http": ([Path("a")], {"strict": True, "transport": Transport.HTTP}),
    "--tool run_skill --tool skills_status": (
        [],
        {"tools": [OptionalTool.RUN_SKILL, OptionalTool.SKILLS_STATUS]},
    ),
    "--pin x a --pin y": ([Path("a")], {"pinned": ["x", "y"]}),
    "--model": None,
    "--model --strict": None,
    "--model=x": None,
    "--tool nothing": None,
    "--port 1": None,
    "--help": None,
    "-- a": None,
    "-": None,
    "~/skills": None,
    "--pin *": None,
}


@pytest.mark.parametrize("words", PLAIN)
def test_plain_words_are_parsed_and_others_are_left_to_the_library(words: str) -> None:
    assert parse_plain_words(words.split()) == PLAIN[words]


_OPTIONS = [*plain_serve._SWITCHES, *plain_serve._WITH_VALUE, *plain_serve._REPEATABLE]
_WORDS = st.sampled_from([*_OPTIONS, "run_skill", "stdio", "http", "off", "debug", "named", "a", "b/c", "-x", "--", ""])


@given(words=st.lists(_WORDS, max_size=6))
def test_plain_words_mean_what_the_library_says(words: list[str]) -> None:
    parsed = parse_plain_words(words)
    if parsed is not None:
        serve: Any = get_command(app).commands["serve"]  # type: ignore[attr-defined]
        params = serve.make_context("serve", [*words]).params
        directories = params.pop("directories") or []
        given_ = {name: value for name, value in params.items() if value not in (None, False, [], ())}
        assert ([Path(each) for each in directories], given_) == parsed
