from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from server.access import PrincipalKind
from server.capabilities.login.static_tokens import StaticTokens, TokenFile, TokenFileError

PAST = datetime.now(UTC) - timedelta(seconds=2)


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "state" / "tokens.json")


def test_a_token_is_stored_as_a_hash_that_only_its_owner_reads(file: TokenFile) -> None:
    text = file.add("anna", ("editor",), None)
    assert text.startswith("sks_")
    secret = text.split("_", 2)[2]
    assert len(secret) == 43
    assert secret not in file.path.read_text(encoding="utf-8")
    if sys.platform != "win32":
        assert file.path.stat().st_mode & 0o777 == 0o600


def test_a_token_has_the_principal_and_roles_that_it_was_created_with(file: TokenFile) -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    text = file.add("anna", ("editor", "admin"), end)
    token = StaticTokens(file).verify(text)
    assert token is not None
    assert token.token == ""
    principal = token.principal
    assert (principal.subject, principal.kind, principal.roles) == (
        "anna",
        PrincipalKind.TOKEN,
        frozenset({"editor", "admin"}),
    )
    assert principal.expires_at == int(end.timestamp())
    assert text.split("_", 2)[2] not in repr(token)


def test_unknown_expired_and_changed_tokens_are_refused(file: TokenFile) -> None:
    text, expired = file.add("anna", (), None), file.add("bob", (), PAST)
    tokens = StaticTokens(file)
    assert tokens.verify(text) is not None
    other = "A" if text[-1] != "A" else "B"
    for wrong in (
        expired,
        text[:-1] + other,
        text + "A",
        text[:-1],
        "sks_",
        "sks__",
        "sks_000000000000_a",
        text.upper(),
    ):
        assert tokens.verify(wrong) is None


def test_changes_of_the_file_reach_a_running_server(file: TokenFile) -> None:
    first = file.add("anna", (), None)
    tokens = StaticTokens(file)
    second = file.add("bob", (), None)
    tokens.reload_if_changed()
    assert tokens.verify(second) is not None
    assert file.revoke("anna")
    tokens.reload_if_changed()
    assert tokens.verify(first) is None
    assert tokens.verify(second) is not None
    file.path.unlink()
    tokens.reload_if_changed()
    assert tokens.verify(second) is None


def test_a_name_is_used_once_and_a_token_is_revoked_by_name_or_id(file: TokenFile) -> None:
    file.add("anna", (), None)
    with pytest.raises(TokenFileError, match="there is a token anna already"):
        file.add("anna", (), None)
    assert not file.revoke("bob")
    assert file.revoke(file.tokens()[0].id)
    assert file.tokens() == ()


def test_a_name_and_an_id_are_told_apart(file: TokenFile) -> None:
    file.add("anna", (), None)
    number = file.tokens()[0].id
    with pytest.raises(TokenFileError, match="looks like the ID of a token"):
        file.add("0123456789ab", (), None)
    # As an earlier version, or an editor, may have left it.
    text = file.path.read_text(encoding="utf-8")
    file.add("bob", (), None)
    other = file.tokens()[1].id
    file.path.write_text(file.path.read_text(encoding="utf-8").replace('"bob"', f'"{number}"'), encoding="utf-8")
    with pytest.raises(TokenFileError, match=f"name of one token and the ID of another; name the first by {other}"):
        file.revoke(number)
    assert len(file.tokens()) == 2
    assert file.revoke(other)
    assert file.path.read_text(encoding="utf-8") == text


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_the_rights_are_those_of_the_file_that_is_read(file: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.add("anna", (), None)
    file.path.chmod(0o620)
    private = file.path.with_name("private")
    private.touch(0o600)
    real_open = os.open

    def replaced(path: Path, flags: int, *, dir_fd: int | None) -> int:
        """Open a file, and give its name to another one with other rights."""
        handle = real_open(path, flags, dir_fd=dir_fd)
        private.replace(file.path)
        return handle

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", replaced)
        with pytest.raises(TokenFileError, match="other users can write"):
            file.tokens()


def test_a_file_that_vanishes_while_it_is_read_is_read(file: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.add("anna", (), None)
    real_open = os.open

    def removed(path: Path, flags: int, *, dir_fd: int | None) -> int:
        handle = real_open(path, flags, dir_fd=dir_fd)
        file.path.unlink()
        return handle

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", removed)
        assert [token.name for token in file.tokens()] == ["anna"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_file_that_is_a_link_stays_one_as_that_of_trusted_folders_does(file: TokenFile, tmp_path: Path) -> None:
    file.path.parent.mkdir()
    file.path.symlink_to(tmp_path / "elsewhere")
    TokenFile(tmp_path / "elsewhere").add("anna", (), None)
    file.add("bob", (), None)
    assert file.path.is_symlink()
    assert [token.name for token in file.tokens()] == ["anna", "bob"]


BROKEN = [
    "",
    "{}",
    "[]",
    '{"version": 2, "tokens": []}',
    '{"version": 1e400, "tokens": []}',
    '{"version": 1, "tokens": [{"id": "1"}]}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_an_invalid_file_has_no_valid_token(file: TokenFile, text: str, caplog: pytest.LogCaptureFixture) -> None:
    token = file.add("anna", (), None)
    tokens = StaticTokens(file)
    file.path.write_text(text, encoding="utf-8")
    with pytest.raises(TokenFileError):
        StaticTokens(file)
    tokens.reload_if_changed()
    assert tokens.verify(token) is None
    assert "not a file of tokens" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_a_file_that_others_can_write_is_refused(file: TokenFile) -> None:
    file.add("anna", (), None)
    file.path.chmod(0o620)
    with pytest.raises(TokenFileError, match="other users can write"):
        file.tokens()


async def test_a_new_token_is_accepted_at_once(file: TokenFile) -> None:
    tokens = StaticTokens(file)
    for name in ("anna", "bob"):
        assert await tokens.current(file.add(name, (), None)) is not None


async def test_invented_tokens_make_the_server_look_at_the_file_ten_times_a_second_at_most(
    file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = file.add("anna", (), None)
    tokens, looks, now = StaticTokens(file), list[float](), [0.0]
    reads = list[None]()

    async def sleep(seconds: float) -> None:
        now[0] += seconds
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr("server.capabilities.login.static_tokens.anyio.sleep", sleep)
    monkeypatch.setattr("server.capabilities.login.static_tokens.time.monotonic", lambda: now[0])
    stamp = tokens._read_stamp

    def look() -> tuple[int, ...]:
        looks.append(now[0])
        return stamp()

    monkeypatch.setattr(tokens, "_read_stamp", look)
    monkeypatch.setattr(file, "tokens", lambda: reads.append(None))
    async with anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(tokens.current, f"sks_{number:012}_x")
    for number in range(5):
        assert await tokens.current(f"sks_{number:012}_y") is None
    assert await tokens.current(text) is not None
    assert all(later - earlier >= 0.099 for earlier, later in pairwise(looks))
    assert len(looks) <= 8
    # The file did not change, so its text was not read.
    assert reads == []
