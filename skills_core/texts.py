"""Texts of others: their patterns, the secrets in them, and characters that are hidden in them.

Patterns are compiled with RE2, which matches any of them in linear time. They match as in JavaScript, as far as RE2
supports it: a pattern that needs lookaround or backreferences is reported as invalid rather than approximated.

The forms of the tokens of services are bounded and have no references or assertions, so that RE2 can search for them
too. Case matters.

Hidden characters are those that people do not see but models read, in which instructions can hide from a review:
direction marks, zero-width characters, tag characters (which can encode whole sentences), repeated variation selectors,
and control characters. Characters that languages and emoji need are allowed: joiners between non-ASCII letters, one
variation selector after a character, and the tags of flags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from skills_core.diagnostics import without_lone_surrogates
from skills_core.errors import InvalidPatternError

MAX_PATTERN = 2000
"""Maximum length of a pattern in characters."""

MAX_PATTERNS = 200
"""Maximum number of patterns of one kind in a skill."""

_MAX_MEMORY = 1 << 20
# Bytes for one compiled pattern; small enough for a thousand patterns.

_CACHE_SIZE = 4096

_ESCAPED_IN_JSON = re.compile(
    # An escaped backslash, with the letter of a JSON escape or a class of such letters: `\\t`, `\\[nrt]`.
    r"""\\\\(?P<json>\[[tnrfbu]+\] | [tnrfbu]?)
      | (?P<part> \\[sntrfva]         # a class or control by its letter: `\s`, `\t`
        | \\x(?:[01][0-9a-fA-F] | \{0*[01]?[0-9a-fA-F]\})  # a control by its number: `\x09`, `\x{9}`
        | \[:(?:space|cntrl|blank):\]  # a named class
        | [\x00-\x1f] )               # a literal control""",
    re.VERBOSE,
)


def pattern_fault(pattern: str) -> str | None:
    """Return why a pattern is invalid; None if it is valid."""
    try:
        _compiled(pattern, across_lines=False)
    except InvalidPatternError as error:
        return str(error)
    return None


def decoded_part(pattern: str) -> str | None:
    r"""Return the first part of a pattern that matches tabs, line ends or other controls; None if there is none.

    JSON writes these characters as escapes such as `\t`, which such a part does not match. A pattern that also contains
    an escape of JSON covers both forms, so the result is None.
    """
    found = list(_ESCAPED_IN_JSON.finditer(pattern))
    if any(match["json"] for match in found):
        return None
    return next((match["part"] for match in found if match["part"]), None)


def compile_matcher(pattern: str, *, across_lines: bool = False) -> Callable[[str], bool]:
    """Return a function that tells whether the pattern matches anywhere in a text.

    With `across_lines`, a dot also matches a line end.

    Raises:
        InvalidPatternError: the pattern is invalid.
    """
    # Most patterns have no dot and so share one compiled form.
    compiled = _compiled(pattern, across_lines=across_lines and "." in pattern)

    def matches(text: str) -> bool:
        try:
            return compiled.search(text) is not None
        except UnicodeEncodeError:
            # Rare: the text has a lone surrogate. Checking every text beforehand would cost every pattern.
            return compiled.search(without_lone_surrogates(text)) is not None

    return matches


@cache
def _options(*, across_lines: bool) -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - few skills have patterns, and every start would pay for it

    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.dot_nl = across_lines
    return options


@lru_cache(_CACHE_SIZE)
def _compiled(pattern: str, *, across_lines: bool) -> Any:  # noqa: ANN401 - likewise
    import re2  # noqa: PLC0415 - few skills have patterns, and every start would pay for it

    if len(pattern) > MAX_PATTERN:
        raise InvalidPatternError(pattern, f"it has {len(pattern)} characters; at most {MAX_PATTERN}")
    try:
        return re2.compile(pattern, _options(across_lines=across_lines))
    except UnicodeEncodeError:
        raise InvalidPatternError(pattern, "it has a lone surrogate, half of a character") from None
    except re2.error as error:
        why = error.args[0] if error.args else error
        shown = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise InvalidPatternError(pattern, shown) from None


class TokenForm(NamedTuple):
    """The form of a token of a service: how it begins, and how it goes on.

    `is_telling` says that nothing else begins like this, so that a part of a token is known by its beginning.
    """

    service: str
    beginning: str
    rest: str
    is_telling: bool = False


TOKEN_FORMS: Final = (
    TokenForm("GitHub", r"gh[pousr]_", r"[A-Za-z0-9]{36,255}", is_telling=True),
    TokenForm("GitHub", r"github_pat_", r"[A-Za-z0-9_]{60,255}", is_telling=True),
    TokenForm("GitLab", r"glpat-", r"[A-Za-z0-9_-]{20,64}", is_telling=True),
    TokenForm("AWS", r"(?:AKIA|ASIA|ABIA|ACCA)", r"[A-Z0-9]{16}"),
    TokenForm("Slack", r"xox[abeoprs]-", r"(?:\d+-)+[A-Za-z0-9-]{16,200}", is_telling=True),
    TokenForm("Slack", r"xapp-\d-", r"[A-Za-z0-9-]{20,200}", is_telling=True),
    TokenForm("Slack", r"hooks\.slack\.com/services/", r"T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20,}"),
    TokenForm("Anthropic", r"sk-ant-", r"[a-z]+\d\d-[A-Za-z0-9_-]{40,200}", is_telling=True),
    TokenForm("OpenAI", r"sk-(?:proj-|svcacct-|admin-)?", r"[A-Za-z0-9_-]{0,80}T3BlbkFJ[A-Za-z0-9_-]{20,100}"),
    TokenForm("OpenAI", r"sk-proj-", r"[A-Za-z0-9_-]{80,200}", is_telling=True),
    TokenForm("OpenAI", r"sk-", r"[A-Za-z0-9]{48}"),
    TokenForm("Google", r"AIza", r"[A-Za-z0-9_-]{35}"),
    TokenForm("Google", r"GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    TokenForm("Google", r"ya29\.", r"[A-Za-z0-9_-]{60,400}"),
    TokenForm("Stripe", r"[sr]k_(?:live|test)_", r"[A-Za-z0-9]{24,120}"),
    TokenForm("Stripe", r"whsec_", r"[A-Za-z0-9]{32,64}"),
    TokenForm("npm", r"npm_", r"[A-Za-z0-9]{36}"),
    TokenForm("PyPI", r"pypi-AgE", r"[A-Za-z0-9_-]{50,400}"),
    TokenForm("Hugging Face", r"hf_", r"[A-Za-z]{34}"),
    TokenForm("SendGrid", r"SG\.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    TokenForm("Twilio", r"SK", r"[0-9a-f]{32}"),
    TokenForm("Telegram", r"\d{8,10}:AA", r"[A-Za-z0-9_-]{33}"),
    TokenForm("DigitalOcean", r"do[opr]_v1_", r"[0-9a-f]{64}"),
    TokenForm("Databricks", r"dapi", r"[0-9a-f]{32}"),
    TokenForm("Linear", r"lin_api_", r"[A-Za-z0-9]{40}"),
    TokenForm("Notion", r"ntn_", r"[A-Za-z0-9]{40,60}"),
    TokenForm("Notion", r"secret_", r"[A-Za-z0-9]{43}"),
    TokenForm(
        "JSON Web Token",
        r"eyJ",
        r"[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,1000}\.[A-Za-z0-9_-]{20,1000}",
        is_telling=True,
    ),
    TokenForm("age", r"AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
)

_PART: Final = r"[A-Za-z0-9_-]{8,}"
# The rest of a token, or of a part of one, after a beginning that tells what it is.

_SERVICES: Final = "|".join(form.beginning + (_PART if form.is_telling else form.rest) for form in TOKEN_FORMS)
_NAMES: Final = r"passw(?:or)?d|passphrase|pwd|secret|token|signature|(?:api|access|private)[_-]?key"
_ANYWHERE: Final = (
    r"(?i:sks_[0-9a-f]{12}_[\w-]+|eyJ[\w-]{1,1000}\.[\w-]*\.[\w-]*|\b(?:bearer|basic)\s+[\w.~+/=-]+)"
    r"|\d{4}-\d\d-\d\d-[0-9a-f]{16}\.jsonl:\d+:[0-9a-f]{64}"
    r"|-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r"(?:[\w+/=:,.\\\s-]*?-{4,5} ?END [A-Z0-9 ]{0,60}-{4,5}|[\w+/=:,.\\\s-]*)"
)
# The second is the anchor of an audit log. It is not secret, but a user whose name looks like one must not forge it.

_KEPT: Final = (
    r"((?i:[?&](?:access_token|token|key|code)(?:=|%3D)))[^&\s\"']+|(://)[^\s/@]+@"
    rf"""|((?i:(?:{_NAMES})(?:["']?\s{{0,4}}(?:=|%3D)|["']\s{{0,4}}:)\s{{0,4}}))"""
    r"""(?:"[^"]{0,300}"|'[^']{0,300}'|[^\s&;,"']+)"""
)
# What precedes these secrets tells what they are, and stays.


@cache
def _secrets() -> re.Pattern[str]:
    return re.compile(rf"{_ANYWHERE}|(?<![A-Za-z0-9])(?:{_SERVICES})|{_KEPT}", re.ASCII)


@cache
def _search() -> Callable[[bytes], object]:
    """Return the search for texts that may have a secret; it takes a small part of the time of `_secrets`."""
    import re2  # noqa: PLC0415 - only logs and the audit need it, and every start would pay for it

    # Without the upper bounds, which make its automaton large; what stands before a token does not matter here.
    forms = re.sub(r"(\{\d+,)\d+\}", r"\1}", f"{_ANYWHERE}|{_SERVICES}|{_KEPT}")
    found: Callable[[bytes], object] = re2.compile(forms.encode("ascii")).search
    return found


def without_secrets(text: str) -> str:
    """Return a text with `[token]` in place of all that has the form of a token, a password or a private key.

    Forms that the text cuts off are known by their beginning where that is telling. A secret of no known form cannot be
    told from a name, and stays.
    """
    return _secrets().sub(_replaced, text) if may_have_secret(text) else text


def may_have_secret(text: str) -> bool:
    """Tell whether `without_secrets` may change a text; this costs less, and is nearly always false."""
    return _search()(text.encode("utf-8", "surrogatepass")) is not None


def _replaced(found: re.Match[str]) -> str:
    if found[2]:
        return f"{found[2]}[token]@"
    return f"{found[1] or found[3] or ''}[token]"


_CONTROLS = bytes([*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F])

_FLAG = r"\U0001F3F4"
_DIRECTION = r"\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069"
_WIDTH = r"\u00AD\u115F\u1160\u180E\u200B\u2060-\u2064\u3164\uFEFF\uFFA0"
_JOINER = r"\u200C\u200D"
_TAG = r"\U000E0000-\U000E007F"
_RARE = r"\U000E0100-\U000E01EF"
_SELECTOR = r"\uFE00-\uFE0F"
_CONTROL = r"\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x84\x86-\x9F\u2028\u2029"

_SUSPECT = re.compile(f"[{_FLAG}{_DIRECTION}{_WIDTH}{_JOINER}{_TAG}{_RARE}{_SELECTOR}{_CONTROL}]")
# Searching one class is much faster than alternatives, and most files have no match.

_HIDDEN = re.compile(
    rf"""{_FLAG}[\U000E0020-\U000E007E]+\U000E007F       # the flag of a region, which needs tags
      | (?P<direction>[{_DIRECTION}])
      | (?P<width>[{_WIDTH}] | (?<![^\x00-\x7F])[{_JOINER}] | [{_JOINER}](?![^\x00-\x7F]))
      | (?P<tag>[{_TAG}])
      | (?P<variant>[{_RARE}] | (?<=[{_SELECTOR}])[{_SELECTOR}])
      | (?P<control>[{_CONTROL}])""",
    re.VERBOSE,
)

_KINDS = {
    "direction": "text direction marks",
    "width": "zero-width characters",
    "tag": "tag characters",
    "variant": "variation selectors",
    "control": "control characters",
}


@dataclass(frozen=True, slots=True)
class HiddenCharacters:
    """The hidden characters of one kind in a text: their number, the first one, and its line, from 1."""

    kind: str
    count: int
    first: str
    line: int

    def __str__(self) -> str:
        """Format the kind, the number and the first code point."""
        return f"{self.kind} ({self.count}, the first is U+{ord(self.first):04X})"


def find_hidden(text: str) -> tuple[HiddenCharacters, ...]:
    """Return the hidden characters in `text`, one entry for each kind, in order of appearance."""
    if text.isascii() and not _has_controls(text):
        return ()
    found: dict[str, list[re.Match[str]]] = {}
    for match in _matches(text):
        found.setdefault(match.lastgroup or "", []).append(match)
    return tuple(
        HiddenCharacters(_KINDS[kind], len(matches), matches[0][0], text.count("\n", 0, matches[0].start()) + 1)
        for kind, matches in found.items()
    )


def without_hidden(text: str) -> str:
    """Return `text` without its hidden characters; others may count as hidden in the result."""
    return _HIDDEN.sub(lambda match: match[0] if match.lastgroup is None else "", text)


def with_hidden_shown(text: str) -> str:
    """Return `text` with the code point of each hidden character in its place, as in `[U+202E]`."""
    if _SUSPECT.search(text) is None:
        return text
    return _HIDDEN.sub(lambda match: match[0] if match.lastgroup is None else f"[U+{ord(match[0]):04X}]", text)


def _matches(text: str) -> Iterator[re.Match[str]]:
    suspect = _SUSPECT.search(text)
    while suspect is not None:
        match = _HIDDEN.match(text, suspect.start())
        if match is not None and match.lastgroup is not None:
            yield match
        suspect = _SUSPECT.search(text, (match or suspect).end())


def _has_controls(text: str) -> bool:
    # Several times as fast as a search, and called for nearly every file.
    return len(text.encode("ascii").translate(None, _CONTROLS)) != len(text)
