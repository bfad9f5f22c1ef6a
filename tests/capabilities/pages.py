"""The page of a server as a visitor of one's choice sees it."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2

from server.access import LOCAL
from server.capabilities.web.visitors import Visitor, Visitors
from server.hosting.views import COMMON_VIEW
from tests.server.serving import Served, serving

FORM_TOKEN = "t" * 32
ANYBODY = Visitor(LOCAL, COMMON_VIEW)
OPERATOR = Visitor(LOCAL, COMMON_VIEW, is_operator=True, may_change=True, form_token=FORM_TOKEN)

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}\u202e\u2066\ufffe"
"""Markup, an expression of templates, and marks that turn the direction of the text around them."""


@dataclass(frozen=True)
class Page:
    """A running server, and what one visitor sees of its page."""

    served: Served

    async def get(self, path: str, status: int = 200) -> str:
        """Return a part of the page."""
        answer = await self.served.client.get(self.served.at(path), headers={"Accept": "text/html"})
        assert answer.status_code == status, answer.text
        return answer.text

    async def do(self, action: str, **fields: str) -> httpx2.Response:
        """Send a form."""
        headers = {"Origin": self.served.at("")}
        form = {"form_token": FORM_TOKEN, **fields}
        return await self.served.client.post(self.served.at(f"/page/do/{action}"), data=form, headers=headers)


@asynccontextmanager
async def page_for(visitor: Visitor, skills: Path, **options: Any) -> AsyncGenerator[Page]:
    """Serve skills, and show the page to `visitor`; `options` are settings."""

    async def of(_self: Visitors, _request: object) -> Visitor:
        return visitor

    with patch.object(Visitors, "of", of):
        async with serving(skills, **options) as served:
            yield Page(served)


def panel(page: str, key: str) -> str | None:
    """Return the HTML of a panel, None if the page has none of this key."""
    found = re.search(rf'<section class="card" id="{key}".*?</section>', page, re.DOTALL)
    return None if found is None else found[0]


def shown(markup: str) -> str:
    """Return the text that a reader sees."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def assert_harmless(markup: str) -> None:
    """Check that `HOSTILE` is shown as text, and that its marks turn nothing around."""
    assert "<script>alert" not in markup
    assert "<img" not in markup
    assert "\u202e" not in markup
    assert "\u2066" not in markup
    assert "\ufffe" not in markup
    assert "&lt;script&gt;alert(1)" in markup
