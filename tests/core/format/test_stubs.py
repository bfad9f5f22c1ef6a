"""Stubs: their text, which every reader of YAML reads alike, and how they are known again."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skills_core.format.document import parse_document
from skills_core.format.frontmatter import DESCRIPTION_LIMIT, is_folder_name, parse_frontmatter
from skills_core.format.stubs import is_stub, read_stub, render_stub, stub_name

CALLED = "mcp__skills__activate_skill"


def rendered(key: str, description: str) -> str:
    return render_stub(stub_name(key), key, description, server="skills", called=CALLED)


@given(st.text(st.characters(), max_size=1500))
def test_any_description_becomes_one_line_that_readers_of_yaml_agree_on(description: str) -> None:
    text = rendered("a", description)
    document = parse_document(text.encode(), "SKILL.md")
    fields = document.fields
    assert fields == yaml.safe_load(text.split("---\n")[1])
    assert [*fields] == ["name", "description", "metadata"]
    assert len(str(fields["description"])) <= DESCRIPTION_LIMIT
    assert is_stub(parse_frontmatter(document, None, "SKILL.md")[0])
    found = read_stub(text)
    assert found is not None
    assert found.is_intact


def test_a_description_is_whole_as_far_as_the_format_allows() -> None:
    words = "word " * 300
    assert f'description: "{words.strip()[:1000]}' in rendered("a", words)
    assert '…"\n' in rendered("a", words)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("release-notes", "release-notes"),
        ("team/Release Notes", "team-release-notes"),
        ("../../etc", "etc"),
        ("..\\..\\x", "x"),
        ("con", "skill-con"),
        ("LPT1", "skill-lpt1"),
        ("漢字", ""),
        ("a" * 200, "a" * 64),
    ],
)
def test_names_are_valid_on_every_system(key: str, name: str) -> None:
    assert stub_name(key) == name
    assert not name or is_folder_name(name)


def test_an_edited_stub_and_another_file_are_told_apart() -> None:
    text = rendered("a", "Does it.")
    for edited in (text.replace("Does it", "Does that"), text + "x", text.replace("a", "b", 1)):
        found = read_stub(edited)
        assert found is not None
        assert not found.is_intact
    assert read_stub("---\nname: a\ndescription: b\n---\n") is None


def test_a_skill_that_users_cannot_call_says_so_in_its_stub() -> None:
    text = render_stub("a", "a", "Does it.", server="skills", called=CALLED, user_invocable=False)
    assert "\nuser-invocable: false\n" in text


def test_a_stub_says_how_to_load_the_skill_and_what_to_tell_without_the_server() -> None:
    text = rendered("team/x", "Does it.")
    assert f"({CALLED}) with the name `team/x`" in text
    assert "Tell the user that the MCP server `skills` is not connected" in text
