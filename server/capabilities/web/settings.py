"""Whether there is a page, what people can do there, and how they log in."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from server.config.settings.section import Section
from server.config.values import NonEmpty, SecretStr

LINK_PATH: Final = "/admin/page"
"""The path on the admin socket at which the server's user gets a link to the page."""


class WebSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The page that people open in a browser, at the root of a server over HTTP."""

    enabled: bool = True
    """Whether there is a page at `/`; without it, browsers are told there how to connect a client."""
    changes: bool = False
    """Whether operators can change something on the page, such as accept an improvement; otherwise it only shows.
    Operators are those with a role of `login.admin_roles`, and without a login whoever opens a link of
    `skillserve page`."""
    client_id: NonEmpty | None = None
    """The name under which the identity provider of `login.issuer` knows the page. People log in there in their
    browser (OAuth 2.1, authorization code with PKCE), and the provider sends them back to `/page/login/callback`."""
    client_secret: SecretStr | None = None
    """The secret of that client, if the provider wants one. There is no flag for it, because other users can see
    command lines."""


SECTION: Final = Section(name="web", kind=WebSettings, prefix="web_", secrets=frozenset({"client_secret"}))
