"""The SDK's OAuth client logs in at a real identity provider (oidc-provider), in both eras."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.client import ConnectMode
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from conformance.identity_provider import CLIENT_SECRET, MODULES, USER, identity_provider, log_in
from server.access import Principal, PrincipalKind
from server.capabilities.login.login import Login
from tests.capabilities.login.serving import serving, write_skill

CALLBACK = "http://127.0.0.1:1/callback"

needs_provider = pytest.mark.skipif(
    shutil.which("node") is None or not (MODULES / "oidc-provider").is_dir(),
    reason="node or oidc-provider is not installed; `make conformance` installs it",
)


class Memory:
    """The storage of the SDK's client."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info


class Browser:
    """The browser of a user who logs in and consents."""

    def __init__(self) -> None:
        self.landed = ""

    async def open(self, url: str) -> None:
        self.landed = await log_in(url, CALLBACK)

    async def code(self) -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(self.landed).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query.get("iss", [None])[0])


@needs_provider
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize(
    ("form", "kind", "profile"),
    [
        ("jwt", PrincipalKind.JWT, ""),
        ("jwt", PrincipalKind.JWT, "/editors"),
        ("opaque", PrincipalKind.OPAQUE, ""),
    ],
)
async def test_the_sdks_client_logs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: ConnectMode, form: str, kind: PrincipalKind, profile: str
) -> None:
    seen: set[Principal] = set()
    verify = Login.verify_token

    async def spy(self: Login, token: str, address: str) -> object:
        found = await verify(self, token, address)
        seen.update({found.principal} if found else ())
        return found

    monkeypatch.setattr(Login, "verify_token", spy)
    async with identity_provider(form) as issuer:
        options = {
            "login_issuer": issuer,
            "login_required_scopes": ("skills",),
            "login_introspection_url": f"{issuer}/token/introspection",
            "login_introspection_client_id": "skillserve",
            "login_introspection_client_secret": CLIENT_SECRET,
            "access_roles": {"editor": ["*"]},
            "access_profiles": {"editors": ["editor"]},
        }
        async with serving(write_skill(tmp_path / "skills"), **options) as endpoint:
            url = endpoint + profile
            browser, memory = Browser(), Memory()
            metadata = OAuthClientMetadata(
                redirect_uris=[AnyUrl(CALLBACK)],
                client_name="test",
                token_endpoint_auth_method="none",  # noqa: S106 - a public client has no secret
            )
            auth = OAuthClientProvider(url, metadata, memory, browser.open, browser.code)
            async with (
                httpx2.AsyncClient(auth=auth, timeout=30) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                tools = [tool.name for tool in (await client.list_tools()).tools]
    assert "activate_skill" in tools
    assert memory.tokens is not None
    assert (memory.tokens.access_token.count(".") == 2) == (form == "jwt")
    (principal,) = {(each.subject, each.kind, each.roles, each.scopes) for each in seen}
    assert principal == (USER, kind, frozenset({"editor"}), frozenset({"skills"}))
