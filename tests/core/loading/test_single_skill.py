from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import (
    Instructions,
    InvalidFrontmatterError,
    InvalidSkillError,
    InvalidSkillsRootError,
    MissingFieldError,
    Reason,
    SkillIoError,
    SkillYamlError,
    Strictness,
    parse_skill,
    read_skill,
)
from skills_core.authoring.advice import ADVICE
from skills_core.loading.single_skill import ERROR_OF

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NEVER_STOPS = {
    *(Reason.FILE_NAME_CASE, Reason.HIDDEN_CHARACTERS, Reason.MISSING_REFERENCE, Reason.TOO_MANY_FILES),
    *(Reason.NOT_PUBLISHED, Reason.DUPLICATE_NAME, Reason.UNWRITABLE, Reason.TOOL_WITHOUT_SCRIPT),
    *(Reason.DECODED_PATTERN, Reason.INVALID_VERSION, Reason.PATH_CASE),
    # Of a skill below a source: one that is asked for by its path has no scan and no audit, and follows no link.
    *(Reason.SCAN_LIMIT, Reason.SYMLINK_OUTSIDE, Reason.AUDIT_FINDING),
}
KINDS = {SkillIoError, SkillYamlError, InvalidFrontmatterError, MissingFieldError, InvalidSkillsRootError}


def test_each_reason_for_an_invalid_skill_belongs_to_one_class_of_errors() -> None:
    assert set(ERROR_OF) == set(ADVICE) - NEVER_STOPS
    assert set(ERROR_OF.values()) == KINDS
    assert all(kind.__bases__ == (InvalidSkillError,) for kind in KINDS)


def test_a_skill_is_read_by_the_path_of_its_folder_or_its_file(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    folder = write_skill(tmp_path, "a", body="Do it.", fields="version: '1.0.0'\nnobody: knows")
    by_folder, by_file = read_skill(folder), read_skill(str(folder / "SKILL.md"))
    assert by_folder == by_file
    assert (by_folder.name, by_folder.description, by_folder.body) == ("a", "Does a thing.", "Do it.")
    assert [each.code for each in by_folder.diagnostics] == [Reason.UNKNOWN_FIELD]
    (folder / "SKILL.md").rename(folder / "skill.md")
    assert read_skill(folder).name == "a"


CONTENTS = {
    "no UTF-8": (b"---\nname: \xff\n---\n", SkillIoError, "not_utf8", None, 2),
    "no text": ("---\nname: a\ndescription: \ud800\n---\n", SkillIoError, "not_utf8", None, 3),
    "nothing": ("", InvalidFrontmatterError, "empty", None, None),
    "no fence": ("# Title", InvalidFrontmatterError, "missing_frontmatter", None, 1),
    "one fence": ("---\nname: a\n", InvalidFrontmatterError, "unclosed_frontmatter", None, 1),
    "no YAML": ("---\n- a\n---\n", SkillYamlError, "invalid_yaml", None, 2),
    "too deep": (f"---\nname: {'[' * 99}\n---\n", SkillYamlError, "yaml_limit", None, 2),
    "no name": ("---\ndescription: d\n---\n", MissingFieldError, "missing_name", "name", None),
    "an empty name": ("---\ndescription: d\nname: ''\n---\n", MissingFieldError, "missing_name", "name", 3),
    "no description": ("---\nname: a\n---\n", MissingFieldError, "missing_description", "description", None),
}


@pytest.mark.parametrize(("content", "kind", "reason", "field", "line"), CONTENTS.values(), ids=CONTENTS)
def test_the_fault_of_an_invalid_skill_is_raised_with_path_line_and_field(
    content: str | bytes, kind: type[InvalidSkillError], reason: str, field: str | None, line: int | None
) -> None:
    with pytest.raises(kind) as caught:
        parse_skill(content, "a/SKILL.md")
    error = caught.value
    assert (error.path.as_posix(), error.reason, error.field, error.line) == ("a/SKILL.md", reason, field, line)
    assert error.message in str(error)
    assert error.reason in [each.code for each in error.diagnostics]


STRICT = {
    "a repair": ("description: a: b", SkillYamlError, None),
    "a key twice": ("description: d\nlicense: a\nlicense: b", SkillYamlError, None),
    "no JSON": ("description: d\nhomepage: .nan", SkillYamlError, None),
    "another name": ("description: d\nname: b", SkillYamlError, None),  # said twice
    "a long description": (f"description: {'d' * 1025}", InvalidFrontmatterError, "description"),
    "an unknown field": ("description: d\nnobody: knows", InvalidFrontmatterError, None),
    "a number": ("description: d\nversion: 5", InvalidFrontmatterError, None),
}


@pytest.mark.parametrize(("yaml", "kind", "field"), STRICT.values(), ids=STRICT)
def test_with_strict_every_breach_of_a_rule_is_raised(
    yaml: str, kind: type[InvalidSkillError], field: str | None
) -> None:
    content = f"---\nname: a\n{yaml}\n---\n"
    assert parse_skill(content, "a/SKILL.md").fault is None
    with pytest.raises(kind) as caught:
        parse_skill(content, "a/SKILL.md", Strictness.STRICT)
    assert caught.value.field == field


def test_with_lenient_the_folder_gives_a_missing_name() -> None:
    assert parse_skill("---\ndescription: d\n---\n", "a/SKILL.md", Strictness.LENIENT).name == "a"


def test_the_error_for_a_path_without_a_skill_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    expected = {
        "nowhere": (InvalidSkillsRootError, Reason.MISSING_DIRECTORY),
        "nowhere/SKILL.md": (InvalidSkillsRootError, Reason.MISSING_DIRECTORY),
        "nul\0": (InvalidSkillsRootError, Reason.MISSING_DIRECTORY),
        "notes.txt": (InvalidSkillsRootError, Reason.NOT_A_DIRECTORY),
        "nul\0/AGENTS.md": (InvalidSkillsRootError, Reason.MISSING_DIRECTORY),
        "nowhere/AGENTS.md": (InvalidSkillsRootError, Reason.MISSING_DIRECTORY),
        "AGENTS.md": (SkillIoError, Reason.MISSING_SKILL_FILE),
        "empty": (SkillIoError, Reason.MISSING_SKILL_FILE),
        "empty/SKILL.md": (SkillIoError, Reason.MISSING_SKILL_FILE),
    }
    for path, (kind, reason) in expected.items():
        with pytest.raises(kind) as caught:
            read_skill(tmp_path / path)
        assert caught.value.reason is reason
        assert [each.code for each in caught.value.diagnostics] == [reason]


def test_an_unreadable_file_raises_an_io_error(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    write_skill(tmp_path, "large", body="x" * 1024 * 1024)
    with pytest.raises(SkillIoError) as caught:
        read_skill(tmp_path / "large")
    assert caught.value.reason is Reason.TOO_LARGE
    (tmp_path / "folder" / "SKILL.md").mkdir(parents=True)
    with pytest.raises(SkillIoError):
        read_skill(tmp_path / "folder")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_link_in_place_of_the_skill_file_is_not_followed(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    folder = write_skill(tmp_path, "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "SKILL.md").symlink_to(folder / "SKILL.md")
    for path in ("b", "b/SKILL.md"):
        with pytest.raises(SkillIoError) as caught:
            read_skill(tmp_path / path)
        assert caught.value.reason is Reason.SYMLINK


LINES = st.sampled_from(["name: a", "name: B", "description: d", "x: y: z", "a: .nan", "a: [", "version: 1"])
CONTENT = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map("---\n{}\n---\n".format),
    st.lists(LINES).map(lambda lines: "\n".join(["---", *lines, "---"])),
)


def outcome(content: str | bytes, strictness: Strictness) -> Instructions | type[InvalidSkillError]:
    try:
        return parse_skill(content, "a/SKILL.md", strictness)
    except InvalidSkillError as error:
        return type(error)


@given(CONTENT, st.sampled_from(Strictness))
def test_any_content_gives_a_skill_or_one_of_the_errors(content: str | bytes, strictness: Strictness) -> None:
    became = outcome(content, strictness)
    if isinstance(became, Instructions):
        assert became.fault is None
        assert became.description
    else:
        assert became in KINDS


AGENTS = "# Project Agent Instructions\nAlways prefer rg over grep.\n"
DOCUMENT = "---\nname: repo-search\ndescription: Search the codebase quickly\n---\nUse ripgrep first.\n"


def test_a_convention_file_is_read_as_a_library_reads_it(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(AGENTS)
    for skill in (
        read_skill(tmp_path / "AGENTS.md"),
        parse_skill(AGENTS, "AGENTS.md"),
        parse_skill(AGENTS, "a/b/agents.MD"),
    ):
        assert (skill.name, skill.description) == ("agents", "Project Agent Instructions")
        assert skill.frontmatter.tags == ("convention", "agents-md")
        assert skill.body == AGENTS.strip()
    assert parse_skill(DOCUMENT, "CLAUDE.md").name == "repo-search"
    with pytest.raises(InvalidFrontmatterError) as caught:
        parse_skill(" \n", "AGENTS.md")
    assert caught.value.reason is Reason.EMPTY


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("---\nname: x\n---\n# Heading\nText", "Heading"),
        ("---\nname: x\n---\n", "Instructions of CLAUDE.md"),
        ("---\nname: x\n# Heading", "Instructions of CLAUDE.md"),
        ("- a list\n", "- a list"),
    ],
)
def test_frontmatter_that_does_not_count_is_not_the_description(text: str, description: str) -> None:
    assert parse_skill(text, "CLAUDE.md").description == description


@pytest.mark.parametrize(
    "file", [".skills/search.md", ".skills/AGENTS.md", ".skills/a/b/search.MD", "a/search.skill.md"]
)
def test_a_document_needs_name_and_description_at_any_strictness(file: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    for text, kind in [
        (DOCUMENT, None),
        ("---\nname: x\n---\nBody.\n", MissingFieldError),
        ("---\ndescription: x\n---\nBody.\n", MissingFieldError),
        ("# Missing frontmatter", InvalidFrontmatterError),
        ("", InvalidFrontmatterError),
    ]:
        (tmp_path / file).write_text(text)
        for strictness in (Strictness.LENIENT, Strictness.REQUIRED):
            if kind is None:
                skill = read_skill(tmp_path / file, strictness)
                assert skill == parse_skill(text, tmp_path.resolve() / file, strictness)
                assert (skill.name, skill.diagnostics) == ("repo-search", ())
            else:
                with pytest.raises(kind):
                    read_skill(tmp_path / file, strictness)
                with pytest.raises(kind):
                    parse_skill(text, f"x/{file}", strictness)


def test_a_skill_is_parsed_without_a_path() -> None:
    skill = parse_skill(DOCUMENT)
    assert (skill.name, skill.body, skill.diagnostics) == ("repo-search", "Use ripgrep first.", ())
    assert parse_skill(DOCUMENT, strictness=Strictness.STRICT) == skill
    with pytest.raises(MissingFieldError, match=r"name is missing$") as caught:
        parse_skill("---\ndescription: d\n---\n")
    assert caught.value.path.as_posix() == "SKILL.md"


def test_a_missing_name_is_an_error_that_names_what_is_expected() -> None:
    with pytest.raises(MissingFieldError, match="name is missing; expected 'a', the name of its folder"):
        parse_skill("---\ndescription: d\n---\n", "a/SKILL.md")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_document_is_recognised_by_its_real_folder_and_its_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".skills").mkdir()
    (tmp_path / ".skills" / "search.md").write_text(DOCUMENT)
    (tmp_path / "linked").symlink_to(tmp_path / ".skills")
    assert read_skill(tmp_path / "linked" / "search.md").name == "repo-search"
    (tmp_path / ".skills" / "other.md").symlink_to("search.md")
    with pytest.raises(SkillIoError):
        read_skill(tmp_path / ".skills" / "other.md")
    (tmp_path / "notes.md").write_text(DOCUMENT)
    with pytest.raises(InvalidSkillsRootError, match="neither a folder"):
        read_skill(tmp_path / ".skills" / ".." / "notes.md")
