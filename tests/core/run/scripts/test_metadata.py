"""Inline metadata of Python scripts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_core.errors import ScriptRefusedError
from skills_core.run.scripts.metadata import ScriptMetadata, read_metadata

BLOCK = '# /// script\n# requires-python = ">=3.11"\n# dependencies = ["a", "b>=2"]\n# ///\n'


def read(text: str) -> ScriptMetadata | None:
    return read_metadata("x.py", text.encode())


def test_a_block_lists_the_requirements() -> None:
    assert read(f"#!/usr/bin/env python3\n{BLOCK}print(1)\n") == ScriptMetadata(BLOCK, ("a", "b>=2"), ">=3.11")


def test_a_script_without_a_block_has_no_metadata() -> None:
    assert read("print('# /// script')\n") is None
    assert read("# /// script\n# dependencies = []\nprint(1)\n") is None
    assert read("# /// other\n# a = 1\n# ///\n") is None


def test_lines_may_end_as_on_windows_and_the_file_may_begin_with_a_mark() -> None:
    found = read("\ufeff" + BLOCK.replace("\n", "\r\n"))
    assert found is not None
    assert found.block == BLOCK


def test_an_empty_comment_is_an_empty_line_and_the_last_end_counts() -> None:
    found = read('# /// script\n#\n# dependencies = ["a"]\n# x = """\n# ///\n# """\n# ///\n')
    assert found is not None
    assert found.dependencies == ("a",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{BLOCK}x = 1\n{BLOCK}", "2 blocks"),
        ("# /// script\n# a = = 1\n# ///\n", "not valid TOML"),
        ("# /// script\n# a = " + "[" * 50_000 + "\n# ///\n", "not valid TOML"),
        ("# /// script\n# dependencies = 'a'\n# ///\n", "expected a list"),
        ("# /// script\n# dependencies = [1]\n# ///\n", "expected a list"),
        ("# /// script\n# requires-python = 3\n# ///\n", "expected a string"),
        ("# /// script\n# a = '" + "x" * 200_000 + "'\n# ///\n", "characters"),
    ],
)
def test_an_invalid_block_is_refused(text: str, why: str) -> None:
    with pytest.raises(ScriptRefusedError, match=why):
        read(text)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["# /// script", "# ///", "#", "# a = 1", "# dependencies = []", "x", ""])))
def test_any_lines_yield_metadata_or_a_refusal(lines: list[str]) -> None:
    try:
        found = read("\n".join(lines))
    except ScriptRefusedError:
        return
    assert found is None or found.block.startswith("# /// script\n")
