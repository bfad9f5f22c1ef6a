"""A served skill, static tokens, and a provider of keys and answers in memory with signed tokens of it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from starlette.types import ASGIApp

from server.capabilities.login.jwt_verifier import JwtVerifier, SigningKeys
from server.capabilities.login.login import Login, RequireLogin
from server.capabilities.login.provider_requests import Provider, ProviderUnavailableError
from server.capabilities.login.settings import LoginSettings
from server.capabilities.login.static_tokens import TokenFile
from server.config.machine import tokens_file
from server.config.values import SecretStr
from server.transport.event_streams import EventStreams
from tests.capabilities.login.serving import write_skill

ISSUER = "https://id.example.com"
AUDIENCE = "https://skills.example.com/mcp"
JWKS = f"{ISSUER}/keys"


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    """A folder with the skill that servers with a login serve."""
    return write_skill(tmp_path / "skills")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenFile:
    """The file of static tokens of servers in this process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return TokenFile(tokens_file())


@dataclass
class SigningKey:
    private: Any
    algorithm: str
    name: str

    @property
    def public(self) -> dict[str, Any]:
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        found = json.loads(algorithm.to_jwk(self.private.public_key()))
        found.pop("key_ops", None)
        return {**found, "kid": self.name, "alg": self.algorithm, "use": "sig"}

    def sign(self, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        now = int(time.time())
        usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "iat": now, "exp": now + 86_400}
        given = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(given, self.private, self.algorithm, {"kid": self.name, **(headers or {})})


RSA = SigningKey(rsa.generate_private_key(65537, 2048), "RS256", "rsa")
EC = SigningKey(ec.generate_private_key(ec.SECP256R1()), "ES256", "ec")
ED = SigningKey(ed25519.Ed25519PrivateKey.generate(), "EdDSA", "ed")
FOREIGN = SigningKey(rsa.generate_private_key(65537, 2048), "RS256", "rsa")


class FakeProvider(Provider):
    """Answers from memory, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, Any] = {JWKS: {"keys": [RSA.public, EC.public, ED.public]}}
        self.asked: list[str] = []
        self.away = False
        self.gate: anyio.Event | None = None
        self.holds: Callable[[str], bool] = lambda _: True

    async def get(self, url: str) -> dict[str, Any]:
        return await self._answer_of(url)

    async def post(self, url: str, form: Any, client: tuple[str, str] | None) -> dict[str, Any]:
        assert url == f"{ISSUER}/introspect"
        assert client == ("skillserve", "a secret of the client")
        return await self._answer_of(form["token"])

    async def _answer_of(self, name: str) -> dict[str, Any]:
        self.asked.append(name)
        if self.gate is not None and self.holds(name):
            await self.gate.wait()
        if self.away or name not in self.answers:
            raise ProviderUnavailableError("away")
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


def requiring_login(app: ASGIApp, login: Login) -> EventStreams:
    """Return an application that serves `app` to those who log in."""

    async def forwarding(*_: object) -> None:
        raise AssertionError("no session opens a stream")

    return EventStreams(RequireLogin(app, login), forwarding)


def settings(**changed: Any) -> LoginSettings:
    usual = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "jwks_url": JWKS,
        "introspection_url": f"{ISSUER}/introspect",
        "introspection_client_id": "skillserve",
        "introspection_client_secret": SecretStr("a secret of the client"),
    }
    return LoginSettings(**{**usual, **changed})


@dataclass
class Setup:
    provider: FakeProvider
    keys: SigningKeys
    verifier: JwtVerifier

    async def roles_of(self, text: str) -> list[str] | None:
        found = await self.verifier.verify(text)
        return None if found is None else sorted(found.principal.roles)


Setups = Callable[..., Any]


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider()


@pytest.fixture
def verifying(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> Setups:
    @asynccontextmanager
    async def verifying(cooldown: float = 0.0, **changed: Any) -> AsyncIterator[Setup]:
        chosen = settings(**changed)
        monkeypatch.setattr("server.capabilities.login.jwt_verifier._COOLDOWN_SECONDS", cooldown)
        monkeypatch.setattr("server.capabilities.login.jwt_verifier._RETRY_SECONDS", min(cooldown, 1.0))
        keys = SigningKeys(chosen, provider)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keys.run)
            yield Setup(provider, keys, JwtVerifier(chosen, keys))
            tasks.cancel_scope.cancel()

    return verifying
