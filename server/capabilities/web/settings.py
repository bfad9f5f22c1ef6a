"""Whether there is a page, and what people can do there."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from server.config.settings.section import Section


class WebSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The page that people open in a browser, at the root of a server over HTTP."""

    enabled: bool = True
    """Whether there is a page at `/`; without it, browsers are told there how to connect a client."""
    changes: bool = False
    """Whether operators can change something on the page, such as accept an improvement; otherwise it only shows."""


SECTION: Final = Section(name="web", kind=WebSettings, prefix="web_")
