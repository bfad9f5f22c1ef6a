"""Listening beyond loopback needs a login, or `--insecure`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.config.files import ConfigurationError
from server.transport.listening import UnprotectedAddressError, require_protection
from tests.capabilities.login.conftest import AUDIENCE, ISSUER
from tests.server.server_processes import served_by_process
from tests.server.settings import make_settings

BEYOND = ["0.0.0.0", "::", "192.0.2.1", "skills.example.com", "127.0.0.1.example.com", "0", "::ffff:192.0.2.1"]  # noqa: S104 - nothing listens there


@pytest.mark.parametrize("host", BEYOND)
def test_other_machines_reach_no_server_without_a_login(host: str) -> None:
    with pytest.raises(UnprotectedAddressError, match="clients need no login"):
        require_protection(make_settings(host=host))


@pytest.mark.parametrize(
    "options", [{"insecure": True}, {"login_tokens": True}, {"login_issuer": ISSUER, "login_audience": AUDIENCE}]
)
def test_a_login_or_the_operators_word_allows_it(options: dict[str, Any]) -> None:
    require_protection(make_settings(host="192.0.2.1", **options))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_login(host: str) -> None:
    require_protection(make_settings(host=host))


def test_an_admin_token_is_no_login() -> None:
    with pytest.raises(UnprotectedAddressError):
        require_protection(make_settings(host="192.0.2.1", admin_token="x" * 32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"login_issuer": ISSUER}, "login.audience is missing"),
        ({"login_issuer": "http://id.example.com", "login_audience": AUDIENCE}, "https://"),
        ({"login_issuer": "https://user:secret@id.example.com", "login_audience": AUDIENCE}, "https://"),
        ({"login_issuer": ISSUER, "login_audience": "api://skills"}, "login.resource"),
        ({"login_issuer": ISSUER, "login_audience": AUDIENCE, "login_algorithms": ("HS256",)}, "expected one of RS256"),
        ({"login_issuer": ISSUER, "login_audience": AUDIENCE, "login_algorithms": ("none",)}, "expected one of RS256"),
        (
            {"login_issuer": ISSUER, "login_audience": AUDIENCE, "login_introspection_url": f"{ISSUER}/introspect"},
            "login.introspection_client_id",
        ),
        ({"login_tokens": True, "login_required_scopes": ('a"b',)}, "login.required_scopes"),
        ({"login_issuer": ISSUER + '/"', "login_audience": AUDIENCE}, "https://"),
        ({"login_introspection_url": f"{ISSUER}/introspect"}, "login.issuer is missing"),
    ],
)
def test_settings_that_protect_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_settings(**options)


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        ({}, 0),
        ({"SKILLSERVE_LOGIN_TOKENS": "1"}, 1),
        # Clients find the provider by themselves, and a header would keep them from it.
        ({"SKILLSERVE_LOGIN_ISSUER": ISSUER, "SKILLSERVE_LOGIN_AUDIENCE": AUDIENCE}, 0),
    ],
)
async def test_the_printed_lines_for_clients_have_the_header_where_users_give_them_a_token(
    settings: dict[str, str], headers: int, skills: Path, tmp_path: Path
) -> None:
    async with served_by_process(skills, XDG_STATE_HOME=str(tmp_path), **settings) as served:
        await served.logs("Ctrl-C")
    assert served.log.count(f'skills {served.url} --header "Authorization: Bearer $TOKEN"') == headers
    assert served.log.count('"headers": {"Authorization": "Bearer $TOKEN"}') == headers
    assert served.log.count("skillserve token add NAME") == headers
