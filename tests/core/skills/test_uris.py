from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.skills.skill import decode_path, file_uri

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
