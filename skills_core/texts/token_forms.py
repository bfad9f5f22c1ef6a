"""The forms of tokens, passwords and private keys, for all that look for them in texts of others.

The forms of services are bounded and have no references or assertions, so that RE2 can search for them too. Case
matters.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TOKEN_FORMS", "TokenForm", "may_have_secret", "without_secrets"]


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
