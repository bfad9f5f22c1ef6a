from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from dataclasses import replace
from typing import Any

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from server.access import PrincipalKind
from server.capabilities.login.provider_requests import ProviderUnavailableError
from server.capabilities.login.refusals import fingerprint
from tests.capabilities.login.conftest import AUDIENCE, EC, ED, FOREIGN, ISSUER, JWKS, RSA, Setups, SigningKey

NOW = int(time.time())
"""When the tests were collected, which may be minutes before one of them runs."""


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def claims() -> dict[str, Any]:
    return {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "exp": NOW + 86_400}


def signed_by_public_key(form: serialization.Encoding) -> str:
    """Sign with HMAC and the text of the RSA key as the secret."""
    text = RSA.private.public_key().public_bytes(form, serialization.PublicFormat.SubjectPublicKeyInfo)
    body = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'rsa'})}.{part(claims())}"
    signature = hmac.new(text, body.encode(), hashlib.sha256).digest()
    return f"{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=lambda key: key.algorithm)
async def test_a_token_of_the_issuer_for_this_server_is_accepted(verifying: Setups, key: SigningKey) -> None:
    async with verifying() as setup:
        token = await setup.verifier.verify(key.sign(scope="a b", roles=["editor"], client_id="app"))
    assert token is not None
    principal = token.principal
    assert (principal.subject, principal.kind, principal.client_id) == ("anna", PrincipalKind.JWT, "app")
    assert (principal.roles, principal.scopes) == ({"editor"}, {"a", "b"})
    assert token.token == ""
    assert token.claims == {"iss": ISSUER}


WRONG: dict[str, dict[str, Any]] = {
    "expired": {"exp": NOW - 60},
    "without expiry": {"exp": None},
    "endless": {"exp": float("inf")},
    "not yet valid": {"nbf": NOW + 80_000},
    "issued in the future": {"iat": NOW + 80_000},
    "foreign audience": {"aud": "https://other.example.com/mcp"},
    "audience with more path": {"aud": AUDIENCE + "/more"},
    "no audience": {"aud": None},
    "empty list of audiences": {"aud": []},
    "foreign issuer": {"iss": "https://evil.example.com"},
    "issuer with a slash": {"iss": ISSUER + "/"},
    "no subject": {"sub": None},
    "endless subject": {"sub": "a" * 10_000},
    "an ID token": {"at_hash": "AAAA"},
    "an ID token of Keycloak": {"typ": "ID"},
    "expiry beyond all years": {"exp": 10**400},
    "bound to a key": {"cnf": {"jkt": "thumbprint"}},
}


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_claims_are_refused(verifying: Setups, name: str) -> None:
    async with verifying() as setup:
        assert await setup.verifier.verify(RSA.sign(**WRONG[name])) is None


async def test_clocks_may_differ_by_the_leeway(verifying: Setups) -> None:
    now = int(time.time())
    async with verifying(leeway_seconds=60) as setup:
        assert await setup.verifier.verify(RSA.sign(exp=now - 20, nbf=now + 20)) is not None
        assert await setup.verifier.verify(RSA.sign(exp=now - 90)) is None


@pytest.mark.parametrize(
    "text",
    [
        f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims())}.",
        f"{part({'alg': 'None', 'kid': 'rsa'})}.{part(claims())}.",
        signed_by_public_key(serialization.Encoding.PEM),
        signed_by_public_key(serialization.Encoding.DER),
        FOREIGN.sign(),
        RSA.sign()[:-6] + "AAAAAA",
        RSA.sign({"crit": ["exp"]}),
        RSA.sign({"typ": "logout+jwt"}),
        "..",
        "a.b.c",
        f"{part([])}.{part(claims())}.AAAA",
        f"{part({'alg': ['RS256']})}.{part(claims())}.AAAA",
        f"{part({'alg': 'RS256', 'kid': {'a': 1}})}.{part(claims())}.AAAA",
        base64.urlsafe_b64encode(b"[" * 4000).decode().rstrip("=") + ".e30.AAAA",
    ],
    ids=range(14),
)
async def test_forged_and_broken_tokens_are_refused(verifying: Setups, text: str) -> None:
    async with verifying() as setup:
        assert await setup.verifier.verify(text) is None


@pytest.mark.parametrize("name", ["jku", "x5u", "jwk", "x5c"])
async def test_a_token_does_not_choose_its_key(verifying: Setups, name: str) -> None:
    value = {"jwk": FOREIGN.public, "x5c": ["AAAA"]}.get(name, "https://evil.example.com/keys")
    async with verifying() as setup:
        assert await setup.verifier.verify(FOREIGN.sign({name: value, "kid": "mine"})) is None
        assert {*setup.provider.asked} == {JWKS}


async def test_an_algorithm_that_is_not_chosen_is_refused(verifying: Setups) -> None:
    async with verifying(algorithms=("ES256",)) as setup:
        assert await setup.verifier.verify(RSA.sign()) is None
        assert await setup.verifier.verify(EC.sign()) is not None


async def test_a_key_serves_only_its_own_algorithm(verifying: Setups) -> None:
    text = jwt.encode(claims(), RSA.private, "PS256", {"kid": "rsa"})
    async with verifying(algorithms=("RS256", "PS256")) as setup:
        assert await setup.verifier.verify(text) is None


async def test_a_key_for_encryption_verifies_nothing(verifying: Setups) -> None:
    async with verifying() as setup:
        setup.provider.answers[JWKS] = {"keys": [{**RSA.public, "use": "enc"}]}
        assert await setup.verifier.verify(RSA.sign()) is None


async def test_rotated_keys_are_fetched(verifying: Setups) -> None:
    new = SigningKey(FOREIGN.private, "RS256", "new")
    async with verifying() as setup:
        assert await setup.verifier.verify(RSA.sign()) is not None
        setup.provider.answers[JWKS] = {"keys": [new.public]}
        assert await setup.verifier.verify(new.sign()) is not None
        assert await setup.verifier.verify(RSA.sign()) is None


async def test_a_token_that_was_accepted_is_refused_when_its_key_is_withdrawn(verifying: Setups) -> None:
    text, new = RSA.sign(), SigningKey(FOREIGN.private, "RS256", "new")
    async with verifying() as setup:
        for _ in range(2):
            assert await setup.verifier.verify(text) is not None
            assert setup.verifier.known(text) is not None
        setup.provider.answers[JWKS] = {"keys": [new.public]}
        assert await setup.verifier.verify(new.sign()) is not None
        assert setup.verifier.known(text) is None
        assert await setup.verifier.verify(text) is None


async def test_a_token_that_was_accepted_is_refused_when_it_has_expired(
    verifying: Setups, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, now = RSA.sign(), time.time()
    async with verifying() as setup:
        token = await setup.verifier.verify(text)
        assert token is not None
        assert setup.verifier.known(text) is token
        monkeypatch.setattr(time, "time", lambda: now + 2 * 86_400)
        assert setup.verifier.known(text) is None


async def test_only_the_whole_text_of_an_accepted_token_is_known(verifying: Setups) -> None:
    text = RSA.sign()
    async with verifying() as setup:
        assert setup.verifier.known(text) is None
        assert await setup.verifier.verify(text) is not None
        for other in (text[:-1], f"{text}A", text.swapcase()):
            assert setup.verifier.known(other) is None
            assert await setup.verifier.verify(other) is None


async def test_invented_key_ids_fetch_the_keys_once_in_the_cooldown(verifying: Setups) -> None:
    async with verifying(cooldown=1000.0) as setup:
        assert await setup.verifier.verify(RSA.sign()) is not None
        for number in range(50):
            assert await setup.verifier.verify(RSA.sign({"kid": f"invented {number}"})) is None
        assert setup.provider.asked == [JWKS]


async def test_many_requests_wait_for_one_fetch(verifying: Setups, provider: Any) -> None:
    provider.gate = anyio.Event()
    results: list[object] = []

    async with verifying() as setup:

        async def verify() -> None:
            results.append(await setup.verifier.verify(RSA.sign()))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(verify)
            await anyio.wait_all_tasks_blocked()
            provider.gate.set()
        assert len([each for each in results if each is not None]) == 20
        assert provider.asked == [JWKS]


@pytest.mark.parametrize("answer", [None, {}, {"keys": 5}, {"keys": [{}] * 65}])
async def test_cached_keys_continue_when_the_provider_fails(verifying: Setups, answer: Any) -> None:
    async with verifying() as setup:
        assert await setup.verifier.verify(RSA.sign()) is not None
        setup.provider.away = answer is None
        if answer is not None:
            setup.provider.answers[JWKS] = answer
        with pytest.raises(ProviderUnavailableError):
            # The provider may have this key by now.
            await setup.verifier.verify(RSA.sign({"kid": "unknown"}))
        assert await setup.verifier.verify(RSA.sign()) is not None


async def test_a_set_with_unusable_entries_is_used(verifying: Setups) -> None:
    async with verifying() as setup:
        setup.provider.answers[JWKS] = {"keys": [5, {"kty": "RSA"}, RSA.public]}
        assert await setup.verifier.verify(RSA.sign({"kid": "unknown"})) is None
        assert await setup.verifier.verify(RSA.sign()) is not None


async def test_a_key_that_the_provider_has_after_it_was_away_is_found(verifying: Setups) -> None:
    new = replace(FOREIGN, name="new")
    async with verifying(cooldown=3600) as setup:
        assert await setup.verifier.verify(RSA.sign()) is not None
        setup.keys._last_attempt = float("-inf")
        setup.provider.away = True
        for _ in range(3):
            with pytest.raises(ProviderUnavailableError):
                await setup.verifier.verify(new.sign())
        setup.provider.away, setup.provider.answers[JWKS] = False, {"keys": [new.public]}
        setup.keys._last_attempt = float("-inf")
        assert await setup.verifier.verify(new.sign()) is not None


BOUND = "it is bound to a key of its client (cnf, as with DPoP or mTLS), and this server cannot check that"

REFUSED = [
    (RSA.sign(exp=1), "it has expired"),
    (RSA.sign(nbf=2**40), "it is not valid yet"),
    (RSA.sign(aud="https://other.example.com"), "it is for another audience than login.audience"),
    (RSA.sign(iss="https://other.example.com"), "it is of another issuer than login.issuer"),
    (RSA.sign(sub=None), "it has no claim sub"),
    (FOREIGN.sign(), "its signature is wrong"),
    (RSA.sign({"kid": "unknown"}), "the provider has no such key"),
    (RSA.sign({"typ": "logout+jwt"}), "it is not an access token"),
    (jwt.encode({}, "secret" * 9, "HS256"), "its algorithm is not one of login.algorithms"),
    (RSA.sign(typ="Refresh"), "it is not an access token of a user or client"),
    (RSA.sign(token_use="id"), "it is not an access token of a user or client"),  # noqa: S106 - no password
    (RSA.sign(cnf={"jkt": "thumbprint"}), BOUND),
    (RSA.sign(cnf={"x5t#S256": "thumbprint"}), BOUND),
    ("a.b.c", "its header is invalid"),
]


@pytest.mark.parametrize(("token", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
async def test_the_log_says_why_a_token_is_refused_and_nothing_of_it(
    verifying: Setups, token: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "server.capabilities.login")
    async with verifying() as setup:
        assert await setup.verifier.verify(token) is None
    assert caplog.messages == [f"login refused: token {fingerprint(token)}: {reason}"]


async def test_an_outage_of_the_provider_is_logged_once(
    verifying: Setups, provider: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "server.capabilities.login")
    provider.away = True
    async with verifying() as setup:
        for _ in range(3):
            setup.keys._last_attempt = float("-inf")
            with pytest.raises(ProviderUnavailableError):
                await setup.verifier.verify(RSA.sign())
        provider.away = False
        setup.keys._last_attempt = float("-inf")
        assert await setup.verifier.verify(RSA.sign()) is not None
    assert caplog.messages == [
        "the keys of the identity provider cannot be fetched: away",
        "the keys of the identity provider are fetched again",
    ]


async def test_without_any_key_the_token_is_neither_valid_nor_invalid(verifying: Setups, provider: Any) -> None:
    provider.away = True
    async with verifying() as setup:
        with pytest.raises(ProviderUnavailableError):
            await setup.verifier.verify(RSA.sign())
        provider.away = False
        assert await setup.verifier.verify(RSA.sign()) is not None


async def test_a_token_without_a_key_id_needs_the_only_key_of_its_algorithm(verifying: Setups, provider: Any) -> None:
    text = jwt.encode(claims(), RSA.private, "RS256")
    async with verifying() as setup:
        assert await setup.verifier.verify(text) is not None
    provider.answers[JWKS] = {"keys": [RSA.public, {**FOREIGN.public, "kid": "second"}]}
    async with verifying() as setup:
        assert await setup.verifier.verify(text) is None


@pytest.mark.parametrize(
    ("claim", "given", "roles"),
    [
        ("roles", {"roles": ["a", "b", 5, "", "x\ny"]}, ["a", "b"]),
        ("roles", {"roles": "a b"}, ["a", "b"]),
        ("roles", {"roles": {"a": 1}}, []),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, ["a"]),
        ("realm_access.roles", {"realm_access": "a"}, []),
        ("https://x.example/roles", {"https://x.example/roles": ["a"]}, ["a"]),
    ],
)
async def test_roles_come_from_the_claim(verifying: Setups, claim: str, given: Any, roles: list[str]) -> None:
    async with verifying(roles_claim=claim) as setup:
        assert await setup.roles_of(RSA.sign(**given)) == roles


async def test_users_without_roles_have_the_default_role(verifying: Setups) -> None:
    async with verifying(default_role="reader") as setup:
        assert await setup.roles_of(RSA.sign()) == ["reader"]
        assert await setup.roles_of(RSA.sign(roles=["a"])) == ["a"]


async def test_the_metadata_of_the_issuer_names_the_keys(verifying: Setups, provider: Any) -> None:
    place = f"{ISSUER}/.well-known/oauth-authorization-server"
    provider.answers[place] = {"issuer": ISSUER, "jwks_uri": JWKS}
    async with verifying(jwks_url=None) as setup:
        assert await setup.verifier.verify(RSA.sign()) is not None


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example.com", "jwks_uri": JWKS},
        {"issuer": ISSUER, "jwks_uri": "http://evil.example.com/keys"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        {"issuer": ISSUER, "jwks_uri": 5},
        {"issuer": ISSUER},
    ],
)
async def test_unsafe_metadata_is_not_used(verifying: Setups, provider: Any, metadata: Any) -> None:
    provider.answers[f"{ISSUER}/.well-known/openid-configuration"] = metadata
    async with verifying(jwks_url=None) as setup:
        with pytest.raises(ProviderUnavailableError):
            await setup.verifier.verify(RSA.sign())
    assert JWKS not in provider.asked
