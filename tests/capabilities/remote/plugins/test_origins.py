"""What a user names as the origin of a plugin is read without guesses that could mislead git."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.remote.plugins.installed import OriginKind, parse_origin
from server.wire.address import AddressError

GIT, SERVER = OriginKind.GIT, OriginKind.SERVER


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("https://example.com/mcp", SERVER, "https://example.com/mcp"),
        ("http://127.0.0.1:8000/mcp", SERVER, "http://127.0.0.1:8000/mcp"),
        ("https://github.com/owner/name/mcp", SERVER, "https://github.com/owner/name/mcp"),
        ("https://example.com/skills.git", GIT, "https://example.com/skills.git"),
        ("https://github.com/owner/name", GIT, "https://github.com/owner/name"),
        ("https://www.github.com/owner/name/", GIT, "https://www.github.com/owner/name/"),
        ("git+https://example.com/x", GIT, "https://example.com/x"),
        ("https://me:secret@example.com/x.git", GIT, "https://example.com/x.git"),
        ("ssh://git@example.com:22/x", GIT, "ssh://git@example.com:22/x"),
        ("git@example.com:owner/x", GIT, "git@example.com:owner/x"),
        ("file:///srv/x", GIT, "file:///srv/x"),
        ("git://example.com/x", GIT, "git://example.com/x"),
        ("http://127.0.0.1:99/x.git", GIT, "http://127.0.0.1:99/x.git"),
    ],
)
def test_the_kind_of_an_address(text: str, kind: OriginKind, shown: str) -> None:
    found = parse_origin(text)
    assert (found.kind, found.shown) == (kind, shown)
    assert "secret" not in repr(found)
    # What the record has leads to the same again.
    assert parse_origin(found.shown, kind=found.kind).shown == shown


def test_folders_and_archives_are_named_by_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.zip").touch()
    monkeypatch.chdir(tmp_path)
    folder, archive = parse_origin("."), parse_origin("a.zip")
    assert (folder.kind, folder.shown) == (OriginKind.FOLDER, str(tmp_path.resolve()))
    assert (archive.kind, archive.path) == (OriginKind.ARCHIVE, (tmp_path / "a.zip").resolve())
    for flags in ({"headers": ("A: b",)}, {"ref": "main"}):
        with pytest.raises(AddressError, match="is a folder"):
            parse_origin(".", **flags)


@pytest.mark.parametrize(
    "text",
    [
        *("-x", "--upload-pack=touch pwned", "ext::sh -c touch% pwned", "nowhere", "", "ftp://example.com/x"),
        *("ssh://-oProxyCommand=x/y", "ssh://-x@example.com/y", "git@-example.com:x", "-x@example.com:y"),
        *("git@example.com:-x", "git+ext://x", "git+https://exa mple.com/x", "https://example.com/x.git?a=b"),
        *("http://example.com/x.git", "file://host/x", "https://example.com/x.git#main", "ssh:///x"),
        *("https://example.com/plugin.zip", "git+https://example.com/x\ny", "git+https://[::1/x"),
    ],
)
def test_what_is_no_origin_is_refused_on_one_line(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AddressError) as caught:
        parse_origin(text)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("ref", ["-x", "--upload-pack=x", "a:b", "+main", "a..b", "", "a b", "HEAD^", "a@{1}", "a//b"])
def test_a_ref_is_a_name_and_nothing_else(ref: str) -> None:
    with pytest.raises(AddressError, match="--ref"):
        parse_origin("https://example.com/x.git", ref=ref)


@pytest.mark.parametrize("ref", ["main", "v1.2.0", "feature/x", "release-2026.1+build", "a" * 40])
def test_branches_tags_and_commits_are_refs(ref: str) -> None:
    assert parse_origin("https://example.com/x.git", ref=ref).ref == ref


def test_credentials_are_headers_of_a_repository_and_no_part_of_its_address() -> None:
    found = parse_origin("https://me:se%3Acret@example.com/x.git", ["X-Key: k"])
    assert found.headers == ("X-Key: k", "Authorization: Basic bWU6c2U6Y3JldA==")
    assert (found.url, found.shown) == ("https://example.com/x.git", "https://example.com/x.git")
    with pytest.raises(AddressError, match="--header"):
        parse_origin("ssh://git@example.com/x", ["X-Key: k"])
    with pytest.raises(AddressError) as caught:
        parse_origin("git+https://me:secret@exa_mple/x")
    assert "secret" not in str(caught.value)


@given(st.text(max_size=60) | st.text(alphabet="git+htpsfile:/@.-x %\\", max_size=40))
def test_what_git_is_given_never_begins_like_an_option_and_has_a_known_transport(text: str) -> None:
    try:
        found = parse_origin(text)
    except AddressError as error:
        assert str(error).isprintable()  # noqa: PT017 - any text may be an origin
        return
    if found.kind is GIT:
        plain = "://" not in found.url
        assert not found.url.startswith("-")
        assert plain or found.url.split("://")[0] in {"https", "http", "ssh", "git", "file"}
        assert "::" not in found.url.split("/")[0]
