"""One list of the forms of secrets serves the logs, the audit log and the audit of skills."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.texts import _secrets, may_have_secret, without_secrets

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\nZXktdjE=\n-----END OPENSSH PRIVATE KEY-----"

REPLACED = {
    "AKIAIOSFODNN7EXAMPLE": "[token]",
    "v1 ghp_0123456789abcdef": "v1 [token]",
    "eyJ" + "a" * 2000: "[token]",
    "db_password=hunter2&x=1": "db_password=[token]&x=1",
    "x?Password%3Dhunter2": "x?Password%3D[token]",
    '{"client_secret": "hunter2", "a": 1}': '{"client_secret": [token], "a": 1}',
    "{'api_key':'hunter2'}": "{'api_key':[token]}",
    "pwd = hunter2": "pwd = [token]",
    f"a {KEY} b": "a [token] b",
    "-----BEGIN PRIVATE KEY-----": "[token]",
    r"-----BEGIN EC PRIVATE KEY-----\nMHcCAQ": "[token]",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQPGBF": "[token]",
    "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----": "[token]",
    "postgresql://user:secret@db/x": "postgresql://[token]@db/x",
    "https://ghp_0123456789abcdef@github.com/x": "https://[token]@github.com/x",
}


@pytest.mark.parametrize(("text", "shown"), REPLACED.items())
def test_what_has_the_form_of_a_secret_is_replaced(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "claude-code 2.0.1",
        "token: see the guide",
        "login.client_secret: expected a text",
        "-----BEGIN CERTIFICATE-----",
        "risk-ant-colony-optimization",
        "\ud800 is no character",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert without_secrets(text) == text


@given(st.lists(st.sampled_from([*REPLACED, "password", "=", "://", "@", "sk-", "Bearer ", "é", "\ud800", " ", "\n"])))
def test_the_fast_search_finds_all_that_is_replaced(parts: list[str]) -> None:
    text = "".join(parts)
    assert may_have_secret(text) or _secrets().search(text) is None


@given(st.lists(st.sampled_from([*REPLACED, " ", ", "])))
def test_what_was_replaced_once_stays(parts: list[str]) -> None:
    once = without_secrets("\n\n; ".join(parts))
    assert "hunter2" not in once
    assert "PRIVATE KEY" not in once
