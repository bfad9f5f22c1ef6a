"""Untrusted patterns: which are valid, and the effect of an invalid one.

One list of the forms of secrets serves the logs, the audit log and the audit of skills.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Library, Reason, Severity, State, Strictness
from skills_core.errors import InvalidPatternError
from skills_core.texts import (
    MAX_PATTERN,
    MAX_PATTERNS,
    _secrets,
    compile_matcher,
    decoded_part,
    may_have_secret,
    pattern_fault,
    without_secrets,
)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?=x)", "perl operator"),
        ("(?<!x)y", "perl operator"),
        (r"(a)\1", "escape"),
        ("(", "missing )"),
        ("[z-a]", "range"),
        ("a{1001}", "repetition"),
        ("((a{100}){100}){100}", "repetition"),
        ("\ud800", "a lone surrogate"),
        ("x" * (MAX_PATTERN + 1), f"at most {MAX_PATTERN}"),
    ],
)
def test_an_invalid_pattern_says_why(pattern: str, why: str) -> None:
    assert why in (pattern_fault(pattern) or "")
    if len(pattern) <= MAX_PATTERN:
        with pytest.raises(InvalidPatternError, match="cannot be used"):
            compile_matcher(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("rm -rf", 'run_command {"argv":["sh","-c","rm -rf /"]}', True),
        ("^Bash ", 'Bash {"command":"ls"}', True),
        ("^Bash ", 'MyBash {"command":"ls"}', False),
        ("(?i)DROP TABLE", 'sql {"q":"drop table x"}', True),
        (" x ", "a x b", True),
        ("é+", "caféé", True),
        ("x", "\ud800", False),
        ("(a+)+$", "a" * 100_000 + "!", False),
    ],
)
def test_a_pattern_matches_anywhere_in_the_text(*, pattern: str, text: str, found: bool) -> None:
    assert pattern_fault(pattern) is None
    assert compile_matcher(pattern)(text) is found


@given(st.text(max_size=40), st.text(max_size=60))
def test_no_pattern_and_no_text_raises(pattern: str, text: str) -> None:
    if pattern_fault(pattern) is None:
        compile_matcher(pattern)(text)


@pytest.mark.parametrize("key", ["danger_patterns", "confirm_patterns"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("['ok', '(?=x)']", "'(?=x)' cannot be used"),
        ("{a: b}", "must be a list of non-empty strings"),
        ("[1, 2]", "must be a list of non-empty strings"),
        ("['']", "must be a list of non-empty strings"),
        ("[" + ", ".join(f"a{number}" for number in range(MAX_PATTERNS + 1)) + "]", f"at most {MAX_PATTERNS}"),
    ],
)
def test_a_skill_with_invalid_patterns_is_invalid(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], key: str, value: str, said: str
) -> None:
    write_skill(tmp_path, "a", fields=f"{key}: {value}")
    write_skill(tmp_path, "b", fields=f"{key}: [' rm ']")
    catalog = load(tmp_path).catalog
    bad, good = catalog.skills
    assert (bad.state, bad.reason) == (State.INVALID, Reason.INVALID_PATTERN)
    (diagnostic,) = bad.diagnostics
    assert said in diagnostic.message
    assert diagnostic.line == 4
    # Blanks are a part of a pattern.
    assert getattr(good.frontmatter, key) == (" rm ",)


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        (r"rm\s+-r", r"\s"),
        (r"a[\t ]b", r"\t"),
        (r"\x0a", r"\x0a"),
        (r"\x{9}", r"\x{9}"),
        ("[[:space:]]", "[:space:]"),
        ("a\tb", "\t"),
        (r"rm -r", None),
        (r"rm(\s|\\t|\\n)+-r", None),
        (r"rm(\s|\\[nrt])+-r", None),
        (r"rm\s+\\[sd]", r"\s"),
        (r"\\s", None),
        (r"\x20", None),
        (r"\S+\d", None),
    ],
)
def test_a_part_that_cannot_match_json_text_is_found(pattern: str, part: str | None) -> None:
    assert pattern_fault(pattern) is None
    assert decoded_part(pattern) == part


@pytest.mark.parametrize("strictness", [Strictness.LENIENT, Strictness.STRICT])
def test_a_skill_with_such_a_pattern_gets_a_diagnostic_and_still_guards(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library], strictness: Strictness
) -> None:
    write_skill(tmp_path, "a", fields=r"danger_patterns: ['rm\s+-r']")
    (skill,) = load(tmp_path, strictness=strictness).catalog.active
    (told,) = [found for found in skill.diagnostics if found.code is Reason.DECODED_PATTERN]
    assert (told.severity, told.line) == (Severity.WARNING, 4)
    assert r"\s" in told.message


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
