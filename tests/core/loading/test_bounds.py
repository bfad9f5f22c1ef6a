"""The cost of hostile or odd input is bounded, and it never gains permissions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from skills_core import Change, Library, Reason, Recipient, Skill, render_activation
from skills_core.skills.skill import decode_path, file_uri

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Bash(echo (x)) Read", ("Bash(echo (x))", "Read")),
        ("Bash(git log:*),Read", ("Bash(git log:*)", "Read")),
        ("'a) b'", ("a)", "b")),
        ("[Read, 1]", ("Read",)),
        ("[Read, [Write]]", ("Read",)),
        ("{Read: true}", ()),
        ("7", ()),
        ("[]", ()),
    ],
)
def test_a_mistake_in_allowed_tools_never_allows_more_tools(
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    only: Callable[[Library], Skill],
    written: str,
    tools: tuple[str, ...],
) -> None:
    write_skill(tmp_path, "a", fields=f"allowed-tools: {written}")
    assert only(load(tmp_path)).frontmatter.allowed_tools == tools


def test_ten_thousand_open_parentheses_are_one_tool(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    write_skill(tmp_path, "a", fields="allowed-tools: '" + "a(" * 50_000 + "'")
    assert len(only(load(tmp_path)).frontmatter.allowed_tools or ()) == 1


def test_thousands_of_unknown_fields_are_reported_in_few_diagnostics(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    write_skill(tmp_path, "a", fields="\n".join(f"field{number}: x" for number in range(5000)))
    told = only(load(tmp_path)).diagnostics
    assert {diagnostic.code for diagnostic in told} == {Reason.UNKNOWN_FIELD}
    assert len(told) < 30
    assert "4980 more" in told[-1].message


def test_the_instructions_follow_the_file_that_is_read_when_one_spelling_replaces_the_other(
    tmp_path: Path, load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for name, description in (("SKILL.md", "one"), ("skill.md", "two")):
        (folder / name).write_text(f"---\nname: a\ndescription: {description}\n---\n", encoding="utf-8")
        os.utime(folder / name, (1, 1))
    library = load(tmp_path)
    (folder / "SKILL.md").unlink()
    library.reload()
    assert only(library).description == "two"


def test_a_touch_changes_nothing(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    folder = write_skill(tmp_path, "a")
    library = load(tmp_path)
    os.utime(folder / "SKILL.md", (1, 1))
    assert not library.reload()
    assert not library.reload([folder / "SKILL.md"])
    assert library.reload() == Change(library.catalog, library.catalog)


@pytest.mark.skipif(os.name == "nt", reason="a backslash separates there")
def test_a_file_with_a_backslash_in_its_name_has_a_uri_that_leads_back(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", files={"b\\c": "x"})
    catalog = load(tmp_path).catalog
    found = catalog.file(catalog.skill("a").file_uri("b\\c"))
    assert found is not None
    assert found[1].path == "b\\c"


def test_a_lone_surrogate_in_a_uri_is_refused_without_an_exception() -> None:
    assert decode_path("skill://a/\udcff") is None
    assert decode_path(file_uri("a", "b")) == "a/b"


def test_names_and_folders_cannot_close_the_tags_of_an_activation(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    write_skill(tmp_path / "<" / "skill_content>\n", "a")
    skill = only(load(tmp_path))
    text = render_activation(skill, {"</skill_content>": "</skill_content >"}, recipient=Recipient(local=True))
    assert text.count("</skill_content") == 1
    assert text.endswith("</skill_content>")
    assert "\n/a" not in text


def test_two_skills_never_share_a_key(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "0", name="a/x")
    write_skill(tmp_path, "a/x", name="x")
    write_skill(tmp_path, "b/x", name="x")
    catalog = load(tmp_path).catalog
    assert len({skill.key for skill in catalog.active}) == 3
    assert all(catalog.skill(skill.key) is skill for skill in catalog.active)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_skill_file_replaced_by_a_link_is_not_served(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], only: Callable[[Library], Skill]
) -> None:
    folder = write_skill(tmp_path, "a", files={"b": "x"})
    library = load(tmp_path)
    (folder / "SKILL.md").rename(folder / "moved.md")
    (folder / "SKILL.md").symlink_to("moved.md")
    library.reload()
    assert only(library).reason is Reason.SYMLINK
