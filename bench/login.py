"""Measure the cost of a login for each request with cached keys: from the ASGI scope to the served application.

The application behind the login does nothing, and the same call without the login is subtracted.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from server.capabilities.login.login import Login, RequireLogin
from server.capabilities.login.settings import LoginSettings
from server.capabilities.login.static_tokens import TokenFile
from server.transport.event_streams import RESPONSE_KEY, OpenResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CALLS = 2000
GOAL_MS = 0.05
ISSUER = "https://id.example.com"
AUDIENCE = "https://skills.example.com/mcp"
KEYS: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


class _Provider:
    async def get(self, _: str) -> dict[str, Any]:
        keys = []
        for name, key in KEYS.items():
            public: dict[str, Any] = json.loads(jwt.get_algorithm_by_name(name).to_jwk(key.public_key()))
            public.pop("key_ops", None)
            keys.append({**public, "kid": name, "alg": name})
        return {"keys": keys}

    async def aclose(self) -> None:
        pass


async def _served(_: Scope, __: Receive, ___: Send) -> None:
    pass


async def _receive() -> Message:
    return {"type": "http.disconnect"}


async def _send(message: Message) -> None:
    raise AssertionError(message)


async def _median_ms(app: ASGIApp, token: str) -> float:
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
    times = []
    for _ in range(CALLS):
        scope: Scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
        scope[RESPONSE_KEY] = OpenResponse(is_listener=False)
        begin = time.perf_counter()
        await app(scope, _receive, _send)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1000


async def _measure() -> bool:
    settings = LoginSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url=f"{ISSUER}/keys", tokens=True)
    with tempfile.TemporaryDirectory(prefix="skillserve-bench-") as folder:
        file = Path(folder) / "tokens.json"
        tokens = {"static": TokenFile(file).add("anna", ("editor",), None)}
        login = Login(settings, file, _Provider())  # type: ignore[arg-type] # it answers from memory
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "exp": int(time.time()) + 3600, "roles": ["editor"]}
        tokens |= {name: jwt.encode(claims, key, name, {"kid": name}) for name, key in KEYS.items()}
        keeping = asyncio.create_task(login.run())
        floor = await _median_ms(_served, "")
        costs = {name: await _median_ms(RequireLogin(_served, login), text) - floor for name, text in tokens.items()}
        keeping.cancel()
    for name, cost in costs.items():
        print(f"{name:>8}{cost:>9.3f} ms a request{'' if cost < GOAL_MS else f'  (goal: {GOAL_MS} ms)'}")
    return all(cost < GOAL_MS for cost in costs.values())


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(_measure()) else 1)
