"""Tools withhold from models eval files, and the instructions of skills that only users may invoke, in any state."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Library
from skills_core.skills.skill import decode_path, file_uri
from skills_core.skills.withheld_files import files_for_models, is_eval_file, is_withheld_from_models

# A name as POSIX systems allow it; the backslash is a separator elsewhere.
NAMES = (
    st.binary(min_size=1, max_size=12)
    .filter(lambda raw: not set(raw) & set(b"/\0\\") and raw not in {b".", b".."})
    .map(os.fsdecode)
)
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)

posix = pytest.mark.skipif(os.name == "nt", reason="file names are bytes on POSIX systems only")


@posix
@given(PATHS, PATHS)
def test_every_path_survives_the_round_trip_through_its_uri(skill: str, path: str) -> None:
    assert decode_path(file_uri(skill, path)) == f"{skill}/{path}"


@posix
@given(PATHS, PATHS)
def test_a_uri_holds_nothing_that_needs_escaping(skill: str, path: str) -> None:
    assert re.fullmatch(r"skill://(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+", file_uri(skill, path))


@pytest.mark.parametrize(
    ("skill", "path", "uri"),
    [
        ("pdf", "SKILL.md", "skill://pdf/SKILL.md"),
        ("acme/pdf", "a/b.txt", "skill://acme/pdf/a/b.txt"),
        ("pdf", "", "skill://pdf/"),
        ("pdf", "a b#c?d%e.md", "skill://pdf/a%20b%23c%3Fd%25e.md"),
        ("über", "naïve.md", "skill://%C3%BCber/na%C3%AFve.md"),
        ("a@b:1", "x+y&z=1", "skill://a%40b%3A1/x%2By%26z%3D1"),
    ],
)
def test_uris_have_one_spelling(skill: str, path: str, uri: str) -> None:
    assert file_uri(skill, path) == uri


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "skill:",
        "skill://",
        "skill:///SKILL.md",
        "skill://a/",
        "skill://a//b",
        "skill://a/./b",
        "skill://a/../b",
        "skill://a/%2E%2E/b",
        "skill://a/%2e/b",
        "skill://../etc/passwd",
        "skill://a/b%2Fc",
        "skill://a/b%2fc",
        "skill://a/b%00c",
        "skill://a/SKILL.md?x=1",
        "skill://a/SKILL.md#x",
        "file:///etc/passwd",
        "http://a/SKILL.md",
        "a/SKILL.md",
        " skill://a/SKILL.md",
    ],
)
def test_a_text_that_is_not_the_uri_of_one_file_is_refused(uri: str) -> None:
    assert decode_path(uri) is None


@pytest.mark.parametrize("segment", ["a", "%", "%2e", "ä"])
def test_a_uri_longer_than_any_path_is_refused_before_it_is_decoded(segment: str) -> None:
    assert decode_path("skill://" + "/".join([segment] * 20_000)) is None
    assert decode_path("skill://a/" + segment * 40_000) is None


@pytest.mark.parametrize("uri", ["skill://pdf/SKILL%2Emd", "skill://%70df/SKILL.md", "skill://pdf/SKILL%2emd"])
def test_needless_encoding_names_the_same_file(uri: str) -> None:
    assert decode_path(uri) == "pdf/SKILL.md"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_no_text_raises_and_no_result_has_an_unsafe_segment(text: str) -> None:
    for uri in (text, f"skill://{text}"):
        path = decode_path(uri)
        assert path is None or not {"", ".", ".."} & set(path.split("/"))
        assert path is None or "\0" not in path


NESTED = [
    ("---\nname: b\ndescription: d\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: d\ntrigger: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: d\ndisable-model-invocation: yes\n---\nBody\n", True),
    ("---\nname: b\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndisable-model-invocation: true\nBody without an end\n", True),
    (f"---\nname: {'[' * 500}\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\n- disable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: \udcff\ndisable-model-invocation: true\n---\nBody\n", True),
    ("---\nname: b\ndescription: d\n---\nBody\n", False),
    ("---\nname: b\nBody without an end\n", False),
    ("What disable-model-invocation means.\n", False),
    ("", False),
]


@pytest.mark.parametrize(("text", "withheld"), NESTED)
@pytest.mark.parametrize("name", ["SKILL.md", "skill.md"])
def test_a_nested_skill_is_withheld_if_only_users_may_invoke_it_or_that_is_unclear(
    name: str,
    text: str,
    withheld: bool,  # noqa: FBT001 - a case of the table
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    folder = write_skill(tmp_path, "a", files={"b/notes.md": "x"})
    (folder / "b" / name).write_bytes(raw)
    skill = load(tmp_path).catalog.skill("a")
    assert is_withheld_from_models(skill, skill.content.files[f"b/{name}"], raw) is withheld
    assert not is_withheld_from_models(skill, skill.content.files["b/notes.md"], raw)


EVALS = ["evals/evals.json", "evals/files/customers.csv", "Evals/x.md", "EVALS/deep/er/x", "evals/SKILL.txt"]
OTHERS = ["evals", "evals.json", "eval/x.md", "references/evals/x.md", "my-evals/x", "evals-workspace/x", "a/evals.md"]


@pytest.mark.parametrize(("path", "is_one"), [*((path, True) for path in EVALS), *((path, False) for path in OTHERS)])
@pytest.mark.parametrize("nested", ["", "inner/", "deep/inner/"])
def test_eval_files_are_those_in_the_folder_evals_of_a_skill_or_of_one_in_it(
    path: str,
    is_one: bool,  # noqa: FBT001 - a case of the table
    nested: str,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
) -> None:
    folder = write_skill(tmp_path, "a", files={f"{nested}{path}": "answer"})
    if nested:
        # In any state: the files of a skill that is not served are files of the enclosing one.
        (folder / nested / "SKILL.md").write_text("no skill")
    content = load(tmp_path).catalog.skill("a").content
    assert is_eval_file(content, content.files[f"{nested}{path}"]) is is_one
    assert (f"{nested}{path}" in files_for_models(content)) is not is_one
    assert "SKILL.md" in files_for_models(content)


def test_without_eval_files_a_models_files_are_the_skills_own_mapping(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", files={"references/evals/x.md": "no test of this skill"})
    content = load(tmp_path).catalog.skill("a").content
    assert files_for_models(content) is content.files


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission there")
def test_a_link_to_an_eval_file_is_one(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    collection = tmp_path / "skills" / "evals"
    folder = write_skill(collection, "a", files={"evals/x.json": "answer", "docs/d.md": "doc"})
    write_skill(collection, "b", files={"evals/y.json": "answer"})
    (folder / "answers").symlink_to("evals")
    (folder / "one.json").symlink_to("evals/x.json")
    (folder / "theirs").symlink_to("../b/evals")
    (folder / "more").symlink_to("docs")
    content = load(tmp_path / "skills", follow_symlinks=True).catalog.skill("a").content
    assert {"answers/x.json", "one.json", "theirs/y.json", "more/d.md"} <= content.files.keys()
    assert files_for_models(content).keys() == {"SKILL.md", "docs/d.md", "more/d.md"}


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission there")
def test_a_skill_that_is_linked_into_place_has_eval_files_too(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    real = write_skill(tmp_path / "evals", "a", files={"evals/x.json": "answer", "docs/d.md": "doc"})
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "a").symlink_to(real)
    content = load(tmp_path / "skills", follow_symlinks=True).catalog.skill("a").content
    assert files_for_models(content).keys() == {"SKILL.md", "docs/d.md"}
