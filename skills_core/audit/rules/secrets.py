"""Secrets in the files of a skill: tokens of known forms, private keys, and random values of secret names."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import first_in_lines
from skills_core.audit.search import find
from skills_core.texts import TOKEN_FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill import AuditedFile, SkillUnderAudit

__all__ = ["RULES"]

_FORMS = tuple(f"{form.beginning}{form.rest}" for form in TOKEN_FORMS)
_TOKEN = re.compile(
    "|".join(rf"(?P<t{number}>(?<![A-Za-z0-9_/+-])(?:{form})(?![A-Za-z0-9_]))" for number, form in enumerate(_FORMS))
)
_TOKEN_START = f"(?-i:{'|'.join(_FORMS)})"
# For a fast search of the places where `_TOKEN` is tried; this search does not look at what stands around.

_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\n|\s)*([A-Za-z0-9+/=:,\\ \s-]{0,400})"
)
_KEY_DATA = re.compile(r"[A-Za-z0-9+/]{40,}")
_MIN_KEY_ENTROPY = 4.0

_URL = re.compile(
    r"://[^\s:/@<>\"'`{}$]{1,64}:([^\s:/@<>\"'`{}$\[\]]{8,128})@"
    r"(?!(?:localhost|127\.|host\b|db:|postgres:|redis:))[\w.-]{3,}"
)
_URL_START = r"://[^\s:/@<>\"'`{}$]{1,64}:[^\s:/@<>\"'`{}$\[\]]{8,128}@"
_NAMED_START = r"(?:key|secret|token|passw(?:or)?d)[\"']?\s{0,4}[:=]"
_NAMED = re.compile(
    r"""(?i)(?:(?<![A-Za-z])(?:secret|token|passw(?:or)?d)|(?:api|secret|access|private|encryption)[_-]?key)["']?\s{0,4}(?:=>|:=|=|:)\s{0,4}
        (?:(?P<quote>["'])(?P<quoted>[^"'\s]{16,200})(?P=quote)|(?P<bare>[A-Za-z0-9_+/=.-]{24,200})(?=\s*$))""",
    re.VERBOSE | re.MULTILINE,
)
_LONGEST_NAME = 12
_LONGEST_VALUE = 256
_MIN_ENTROPY = 3.7
_MIN_TOKEN_ENTROPY = 3.0
_MIN_DIGITS = 2
_MIN_LETTERS = 4
_LONG = 20
_VOWELS = 0.28
# The share of vowels that English words have more of, and random letters less.

_PLACEHOLDER = re.compile(
    r"(?i)example|sample|dummy|your|placeholder|changeme|change[_-]me|replace|redacted|x{5,}|\*{3,}|\.\.\.|<|>|\$\{|\{\{|insert|fake|mock|todo|1234567|abcdef"
    r"|(?<![a-z])test(?![a-z])|localhost|0{8,}|sha\d{3}-|-here\b"
)
_NOT_RANDOM = re.compile(
    r"^(?:[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}|[A-Z]+(?:_[A-Z0-9]+)+|[A-Za-z]+(?:[-_./][A-Za-z]+\d*)+|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|/.*|\d+)$"
)


def _secrets(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        for start, what in sorted((*_tokens(file), *_keys(file), *_passwords(file))):
            yield Hit(file, f"has {what}", start, Severity.WARNING if file.is_eval else None, evidence=what)


def _tokens(file: AuditedFile) -> Iterator[tuple[int, str]]:
    text = file.text or ""
    for found in find(_TOKEN_START, text):
        match = _TOKEN.match(text, found.start)
        token = match[0] if match else ""
        if (
            match
            and not _PLACEHOLDER.search(token)
            and not _is_sequence(token)
            and _entropy(token) > _MIN_TOKEN_ENTROPY
        ):
            number = int((match.lastgroup or "t0")[1:])
            yield match.start(), f"a token of {TOKEN_FORMS[number].service} ({_masked(token)})"


def _keys(file: AuditedFile) -> Iterator[tuple[int, str]]:
    for match in _PRIVATE_KEY.finditer(file.text or ""):
        data = _KEY_DATA.search(match[1])
        if data and _entropy(data[0]) > _MIN_KEY_ENTROPY and not _PLACEHOLDER.search(data[0]):
            yield match.start(), "a private key"


def _passwords(file: AuditedFile) -> Iterator[tuple[int, str]]:
    text = file.text or ""
    for found in find(_URL_START, text):
        match = _URL.match(text, found.start)
        if match and _is_random(match[1]):
            yield match.start(1), f"a password in an address ({_masked(match[1])})"
    for found in find(_NAMED_START, text):
        start = max(found.start - _LONGEST_NAME, 0)
        match = next(
            (each for each in _NAMED.finditer(text, start, found.end + _LONGEST_VALUE) if each.end() >= found.end), None
        )
        value = (match["quoted"] or match["bare"]) if match else ""
        if match and _is_random(value):
            yield match.start(), f"a value that looks like a secret ({_masked(value)})"


def _is_random(value: str) -> bool:
    """Tell whether a value looks generated: varied characters, and neither words nor an example."""
    letters = [char for char in value.lower() if char.isalpha()]
    has_digits = sum(char.isdigit() for char in value) >= _MIN_DIGITS
    is_gibberish = (
        len(letters) >= _LONG
        and sum(char in "aeiou" for char in letters) < _VOWELS * len(letters)
        and not value.islower()
    )
    return (
        (has_digits or is_gibberish)
        and len({*letters}) >= _MIN_LETTERS
        and _entropy(value) >= _MIN_ENTROPY
        and not _PLACEHOLDER.search(value)
        and not _is_sequence(value)
        and not _NOT_RANDOM.match(value)
    )


def _is_sequence(token: str) -> bool:
    """Tell whether somebody typed a token as an example: it has `abcdef`, `12345` or `qwerty`."""
    letters = "".join(char for char in token.lower() if char.isalpha())
    digits = "".join(char for char in token if char.isdigit())
    return any(alphabet in text for alphabet, text in (("abcdef", letters), ("12345", digits), ("qwerty", letters)))


def _entropy(text: str) -> float:
    """Return the bits of information in a character of a text, by the frequencies of its characters."""
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in Counter(text).values())


def _masked(token: str) -> str:
    """Return the beginning of a secret, enough to find it and too little to use it."""
    return f"{token[:6]}…"


RULES = (
    Rule(
        "secret",
        Severity.ERROR,
        "Secret in a file",
        "Everybody who gets the skill gets the secret, and every model that reads the file.",
        "Revoke the secret, remove it, and read it from a variable or a keychain.",
        lambda skill: first_in_lines(_secrets(skill)),
        8.0,
    ),
)
