"""People with a browser at the page, and an identity provider at which they log in."""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from server.capabilities.login.provider_requests import ProviderUnavailableError
from tests.capabilities.login.conftest import ISSUER, JWKS, RSA, FakeProvider
from tests.server.serving import Served

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"

OPTIONS: Mapping[str, Any] = {"login_issuer": ISSUER, "login_jwks_url": JWKS, "web_client_id": "page"}
"""A server whose page is a client of `PageProvider`."""

METADATA = f"{ISSUER}/.well-known/openid-configuration"

ROLES: Mapping[str, Any] = {"access_roles": {"reader": ["one"], "writer": ["two"], "admin": ["*"]}}


@dataclass
class Browser:
    """A browser with one window: it follows no redirects, so that tests see them."""

    served: Served
    client: httpx2.AsyncClient
    headers: dict[str, str] = field(default_factory=dict)

    async def open(self, path: str, **headers: str) -> httpx2.Response:
        """Go to an address."""
        given = {"Accept": HTML, "Sec-Fetch-Mode": "navigate", **self.headers, **headers}
        return await self.client.get(self._url(path), headers=given)

    async def fetch(self, path: str) -> httpx2.Response:
        """Ask as a script of the page does."""
        return await self.client.get(self._url(path), headers={"Accept": HTML, "Sec-Fetch-Mode": "cors"})

    async def send(self, path: str, fields: Mapping[str, str], **headers: str) -> httpx2.Response:
        """Send a form of the page."""
        origin = self._url("/").removesuffix("/")
        given = {"Origin": origin, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", **headers}
        sent = {name: value for name, value in {**given, **self.headers}.items() if value}
        return await self.client.post(self._url(path), data=dict(fields), headers=sent)

    async def log_in(self, token: str, back: str = "/", **headers: str) -> httpx2.Response:
        return await self.send("/page/login", {"token": token, "back": back}, **headers)

    async def log_in_at(self, provider: PageProvider, back: str = "/", **claims: Any) -> httpx2.Response:
        """Log in at the identity provider, which gives a token with `claims`; return the answer to its redirect."""
        start = await self.open(f"/page/login/start?{urlencode({'back': back})}")
        return await self.open(provider.agree(start.headers["location"], **claims))

    async def names(self) -> list[str]:
        """Return the skills in the list."""
        return re.findall(r'<h2><a href="[^"]*" dir="auto">([^<]*)</a>', (await self.open("/")).text)

    async def form_token(self) -> str:
        found = re.search(r'name="form_token" value="(\w+)"', (await self.open("/")).text)
        return "" if found is None else found[1]

    @property
    def cookies(self) -> dict[str, str]:
        return dict(self.client.cookies.items())

    def _url(self, path: str) -> str:
        return self.served.at(path) if path.startswith("/") else path


@asynccontextmanager
async def browsing(served: Served, **headers: str) -> AsyncGenerator[Browser]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield Browser(served, client, headers)


class PageProvider(FakeProvider):
    """An identity provider with the authorization code flow, which checks what OAuth 2.1 has it check."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata: dict[str, Any] = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize?tenant=1",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": JWKS,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        self.answers[METADATA] = self.metadata
        self.codes: dict[str, tuple[dict[str, str], dict[str, Any]]] = {}
        self.answer: dict[str, Any] = {"token_type": "Bearer"}
        self.client: tuple[str, str] | None = None
        self.status: int | None = None

    def agree(self, url: str, **claims: Any) -> str:
        """Return where the provider sends a browser whose user agrees; its token has `claims`."""
        query = self.asked_for(url)
        code = f"code-{len(self.codes)}"
        self.codes[code] = query, claims
        return self.back(query, code=code)

    def asked_for(self, url: str) -> dict[str, str]:
        """Return the parameters of an authorization request."""
        assert url.startswith(f"{ISSUER}/authorize?tenant=1&")
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert query["response_type"] == "code"
        assert query["client_id"] == "page"
        assert query["code_challenge_method"] == "S256"
        return query

    def back(self, query: Mapping[str, str], **given: str) -> str:
        """Return the address of the answer to an authorization request; empty parameters are left out."""
        all_given = {"state": query["state"], "iss": ISSUER, **given}
        shown = {name: value for name, value in all_given.items() if value}
        return f"{query['redirect_uri']}?{urlencode(shown)}"

    async def post(self, url: str, form: Any, client: tuple[str, str] | None) -> dict[str, Any]:
        assert url == f"{ISSUER}/token"
        self.client = client
        if self.status is not None:
            raise ProviderUnavailableError("HTTP", status=self.status)
        query, claims = self.codes.pop(form["code"], ({}, {}))
        digest = urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        fits = digest == query.get("code_challenge") and form["redirect_uri"] == query["redirect_uri"]
        if not fits or form["client_id"] != "page" or form["grant_type"] != "authorization_code":
            raise ProviderUnavailableError("HTTP 400", status=400)
        token = RSA.sign(**{"aud": form["resource"], "roles": ["reader"], **claims})
        return {"access_token": token, **self.answer}
