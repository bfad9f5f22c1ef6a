"""A plain command line of `serve` is parsed as the command-line library parses it; any other is left to the library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from server.cli.app import app
from server.cli.commands.serve import serve
from server.cli.serve_options import PLAIN_OPTIONS, ServeOptions, parse_plain_options
from server.config.settings.server import Transport
from server.config.settings.tools import OptionalTool

PLAIN: dict[str, tuple[list[Path], ServeOptions] | None] = {
    "": ([], ServeOptions()),
    "a b": ([Path("a"), Path("b")], ServeOptions()),
    "a --strict --transport http": ([Path("a")], ServeOptions(strict=True, transport=Transport.HTTP)),
    "--tool run_skill --tool skills_status": (
        [],
        ServeOptions(tools=[OptionalTool("run_skill"), OptionalTool("skills_status")]),
    ),
    "--pin x a --pin y": ([Path("a")], ServeOptions(pinned=["x", "y"])),
    "--model": None,
    "--model --strict": None,
    "--model=x": None,
    "--tool nothing": None,
    "--port 1": None,
    "--help": None,
    "-- a": None,
    "-": None,
}
if sys.platform == "win32":
    # The library expands them.
    PLAIN |= {"~/skills": None, "--pin *": None}


@pytest.mark.parametrize("words", PLAIN)
def test_plain_words_are_parsed_and_others_are_left_to_the_library(words: str) -> None:
    assert parse_plain_options(words.split()) == PLAIN[words]


_WORDS = st.sampled_from(
    [*PLAIN_OPTIONS, "run_skill", "stdio", "http", "off", "debug", "named", "a", "b/c", "-x", "--", ""]
)


@given(words=st.lists(_WORDS, max_size=6))
def test_plain_words_mean_what_the_library_says(words: list[str]) -> None:
    parsed = parse_plain_options(words)
    if parsed is not None:
        command: Any = get_command(app).commands["serve"]  # type: ignore[attr-defined]
        params = command.make_context("serve", [*words]).params
        directories = params.pop("directories") or []
        given_ = {name: value for name, value in params.items() if value not in (None, False, [], ())}
        assert ([Path(each) for each in directories], ServeOptions(**given_)) == parsed


def test_the_parameters_of_the_command_are_the_fields_of_its_options() -> None:
    parameters, fields = get_type_hints(serve), get_type_hints(ServeOptions)
    assert {name: kind for name, kind in parameters.items() if name not in {"directories", "return"}} == fields
