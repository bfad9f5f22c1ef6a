"""The forms of the tokens of well-known services, for all that look for tokens in texts of others.

The forms are bounded and have no references or assertions, so that RE2 can search for them too. Case matters.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["TOKEN_FORMS", "TokenForm"]


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
