"""`skillserve token`: static tokens of the HTTP login."""

from __future__ import annotations

import json
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from server.capabilities.login.static_tokens import StaticTokens, TokenFile
from tests.server.cli.test_cli import run


def token(state: Path, *arguments: str) -> CompletedProcess[str]:
    return run("token", *arguments, XDG_STATE_HOME=str(state))


def stored(state: Path) -> TokenFile:
    return TokenFile(state / "skillserve" / "tokens.json")


def test_a_token_is_printed_once_listed_without_its_secret_and_revoked(tmp_path: Path) -> None:
    added = token(
        tmp_path, "add", "anna", "--role", "editor", "--role", "editor", "--role", "admin", "--expires", "90d"
    )
    assert added.returncode == 0, added.stderr
    text = added.stdout.strip()
    assert re.fullmatch(r"sks_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", text)
    assert "cannot be shown again" in added.stderr
    assert StaticTokens(stored(tmp_path)).verify(text) is not None

    (row,) = json.loads(token(tmp_path, "list", "--json").stdout)["tokens"]
    assert (row["name"], row["roles"], row["expired"]) == ("anna", ["editor", "admin"], False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row["expires"])
    shown = token(tmp_path, "list").stdout
    assert f"{row['id']}  anna  roles: editor, admin  expires {row['expires']}\n" == shown
    assert text.split("_", 2)[2] not in shown

    assert token(tmp_path, "revoke", "anna").stdout == "revoked: anna\n"
    again = token(tmp_path, "revoke", "anna")
    assert (again.returncode, "there is no token anna" in again.stderr) == (1, True)
    assert StaticTokens(stored(tmp_path)).verify(text) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "a b"),
        ("add", ""),
        ("add", "-x"),
        ("add", "anna", "--role", "a/b"),
        ("add", "anna", "--role", "x" * 65),
        ("add", "anna", "--expires", "soon"),
        ("add", "anna", "--expires", "12hours"),
        ("add", "anna", "--expires", "0s"),
        ("add", "anna", "--expires", "999999999w"),
    ],
)
def test_names_roles_and_spans_that_do_not_fit_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = token(tmp_path, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert not stored(tmp_path).path.exists()


def test_a_server_without_a_login_does_not_listen_beyond_this_machine(tmp_path: Path) -> None:
    result = run("serve", tmp_path, "--transport", "http", "--host", "::", "--port", "0")
    assert result.returncode == 2
    assert "clients need no login" in result.stderr
    assert "--insecure" in result.stderr


def test_what_keeps_a_new_token_from_working_is_said(tmp_path: Path) -> None:
    file = tmp_path / "config/skillserve/skillserve.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[access.roles]\neditor = ['*']\n")
    file.chmod(0o600)
    places = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    wrong = run("token", "add", "anna", "--role", "editr", **places)
    assert wrong.returncode == 0
    assert "accept no tokens yet" in wrong.stderr
    assert "no role editr, but editor" in wrong.stderr
    file.write_text("[login]\ntokens = true\n[access.roles]\neditor = ['*']\n")
    right = run("token", "add", "bob", "--role", "editor", **places)
    assert right.stderr.count("\n") == 1
