"""An operator at the page, however it came in, and texts of strangers."""

from __future__ import annotations

import httpx2
import pytest

from server.access import LOCAL
from server.capabilities.web.visitors import Visitor, Visitors
from server.hosting.views import COMMON_VIEW
from tests.server.serving import Served

TOKEN = "token-of-the-form"  # noqa: S105 - of no server

HOSTILE = "<script>alert(1)</script>\"'&}}{{\u202eevil\u0000\u2028\ud800\uffff"
"""It must be on no page as it is."""

VISIBLY_HOSTILE = HOSTILE.replace("\ud800", "")
"""It can be sent."""


def let_in(monkeypatch: pytest.MonkeyPatch, *, may_change: bool = False) -> None:
    """Let every visitor be an operator."""

    async def of(_: object, request: object) -> Visitor:
        del request
        return Visitor(LOCAL, COMMON_VIEW, is_operator=True, may_change=may_change, form_token=TOKEN)

    monkeypatch.setattr(Visitors, "of", of)


async def act(served: Served, action: str, **fields: str) -> httpx2.Response:
    """Send the form of an action."""
    fields = {"form_token": TOKEN, **fields}
    own = {"Sec-Fetch-Site": "same-origin"}
    return await served.client.post(served.at(f"/page/do/{action}"), data=fields, headers=own)


def is_safe(text: str) -> bool:
    """Tell whether nothing of `HOSTILE` is markup, or hidden."""
    return not any(each in text for each in ("<script>alert", "\u202e", "\u0000", "\u2028"))
