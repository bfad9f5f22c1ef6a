"""The settings of the page: what the check of the configuration finds, and what the terminal is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from server.capabilities.web import CAPABILITY
from server.capabilities.web.checks import check_web
from server.cli.config_check.settings_check import Configuration, check_settings
from server.config.jdai import JdaiSettings
from server.config.machine import Machine, current_places
from tests.server.settings import make_settings

ISSUER = {"SKILLSERVE_LOGIN_ISSUER": "https://id.example.com", "SKILLSERVE_LOGIN_AUDIENCE": "https://a.example.com/mcp"}
CLIENT = {"SKILLSERVE_WEB_CLIENT_ID": "page"}
SECRET = {"SKILLSERVE_WEB_CLIENT_SECRET": "not to be told"}
CHANGES = {"SKILLSERVE_WEB_CHANGES": "true"}
EVERYWHERE = {"SKILLSERVE_HOST": "0.0.0.0"}  # noqa: S104 - not bound
TOKENS = {"SKILLSERVE_LOGIN_TOKENS": "true"}


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, []),
        (CHANGES, []),
        ({**ISSUER, **CLIENT, **SECRET, **CHANGES}, []),
        (CLIENT, [("error", "web.client_id")]),
        ({**TOKENS, **CLIENT}, [("error", "web.client_id")]),
        ({**ISSUER, **SECRET}, [("error", "web.client_secret")]),
        ({**EVERYWHERE, **CHANGES}, [("warning", "web.changes")]),
        ({**EVERYWHERE, **CHANGES, **TOKENS}, []),
        ({**CHANGES, **TOKENS, "SKILLSERVE_LOGIN_ADMIN_ROLES": "chief"}, []),
        (
            {"SKILLSERVE_WEB_ENABLED": "false", **CHANGES, **CLIENT, **SECRET},
            [("warning", "web.changes"), ("warning", "web.client_id"), ("warning", "web.client_secret")],
        ),
        ({"SKILLSERVE_WEB_ENABLED": "maybe", **CLIENT}, []),
    ],
)
def test_the_check_finds_what_has_no_effect_and_what_cannot_work(
    tmp_path: Path, variables: dict[str, str], found: list[tuple[str, str]]
) -> None:
    checked = check_settings(tmp_path, variables, JdaiSettings())
    findings = [*check_web(Configuration(checked, Machine(current_places()), variables))]
    assert [(str(each.level), each.key) for each in findings] == found
    assert all(each.advice for each in findings)
    assert "not to be told" not in str(findings)


def test_the_check_finds_that_nobody_is_an_operator(tmp_path: Path) -> None:
    folder = tmp_path / "skillserve"
    folder.mkdir()
    (folder / "skillserve.toml").write_text("[login]\ntokens = true\nadmin_roles = []\n[web]\nchanges = true\n")
    checked = check_settings(tmp_path, {}, JdaiSettings())
    (found,) = check_web(Configuration(checked, Machine(current_places()), {}))
    assert "login.admin_roles names no role" in found.message


def test_the_terminal_is_told_where_the_page_is_and_how_to_be_its_operator() -> None:
    def told(origin: str, **options: object) -> dict[str, str]:
        assert CAPABILITY.start_lines is not None
        return dict(CAPABILITY.start_lines(make_settings(**options), origin))

    for port, words in (("8000", " page"), ("90", " page --port 90")):
        usual = told(f"http://localhost:{port}")
        assert usual.pop("page") == f"http://localhost:{port}/"
        # There is no socket on Windows.
        assert all(each.endswith(words) for each in usual.values())
        assert list(usual) == ([] if sys.platform == "win32" else ["as operator"])
    assert list(told("http://localhost:90", login_tokens=True)) == ["page"]
    assert told("http://localhost:90", web_enabled=False) == {}
