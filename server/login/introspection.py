"""Verify opaque access tokens by asking the identity provider (RFC 7662)."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import anyio

from server.access.principal import PrincipalKind
from server.login.access_token import ProviderUnavailableError, login_token
from server.login.claims import is_for, is_time, principal_from, serves_its_bearer

if TYPE_CHECKING:
    from server.config.settings import LoginSettings
    from server.login.access_token import LoginToken
    from server.login.provider import Provider

__all__ = ["Introspection"]

logger = logging.getLogger(__name__)

_VALID_SECONDS: Final = 60.0
_INVALID_SECONDS: Final = 10.0
_AWAY_SECONDS: Final = 2.0
# The provider is not asked again so soon after it failed.
_QUIET_SECONDS: Final = 2.0
# So long after a warning, faults are logged as information.
_BAD_REQUEST: Final = 400
_MAX_REMEMBERED: Final = 1024
_MAX_PENDING: Final = 64
_FOREIGN_TYPES: Final = ("refresh_token", "id_token")


class Introspection:
    """Asks about tokens; answers are remembered briefly, and one question a token is open at a time."""

    def __init__(self, settings: LoginSettings, provider: Provider) -> None:
        """Ask nothing yet."""
        self._settings = settings
        self._provider = provider
        # Kept apart, so that invented tokens do not displace valid ones. Keys are hashes: no token stays in memory.
        self._valid: OrderedDict[bytes, tuple[float, LoginToken]] = OrderedDict()
        self._invalid: OrderedDict[bytes, float] = OrderedDict()
        self._pending: dict[bytes, anyio.Event] = {}
        self._away_until = self._quiet_until = float("-inf")

    async def verify(self, text: str) -> LoginToken | None:
        """Return the token if the provider says that it is active and meant for this server.

        Raises:
            ProviderUnavailableError: the provider cannot be asked.
        """
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        while True:
            now = time.monotonic()
            if (valid := self._valid.get(digest)) is not None and valid[0] > now:
                return valid[1]
            if self._invalid.get(digest, now) > now:
                return None
            if (pending := self._pending.get(digest)) is None:
                break
            # Whoever asks may be cancelled, or get an answer that is not remembered.
            await pending.wait()
        if now < self._away_until or len(self._pending) >= _MAX_PENDING:
            raise ProviderUnavailableError("the provider cannot be asked about the token now")
        self._pending[digest] = anyio.Event()
        try:
            return await self._ask(text, digest)
        finally:
            self._pending.pop(digest).set()

    async def _ask(self, text: str, digest: bytes) -> LoginToken | None:
        settings = self._settings
        secret = settings.introspection_client_secret
        client = (settings.introspection_client_id or "", secret.get_secret_value() if secret else "")
        form = {"token": text, "token_type_hint": "access_token"}
        try:
            answer = await self._provider.post(settings.introspection_url or "", form, client)
        except ProviderUnavailableError as error:
            self._log(error)
            if not error.answered:
                self._away_until = time.monotonic() + _AWAY_SECONDS
            raise
        token = self._judged(answer)
        now = time.monotonic()
        if token is None:
            _remember(self._invalid, digest, now + _INVALID_SECONDS)
        else:
            _remember(self._valid, digest, (now + _lifetime(token), token))
        return token

    def _log(self, error: ProviderUnavailableError) -> None:
        now = time.monotonic()
        # Senders of invented tokens must not fill the log, and status 400 is how a provider calls a token odd.
        is_loud = error.status != _BAD_REQUEST and now >= self._quiet_until
        if is_loud:
            self._quiet_until = now + _QUIET_SECONDS
        fault = "does not judge a token" if error.answered else "cannot be asked about tokens"
        logger.log(logging.WARNING if is_loud else logging.INFO, "the identity provider %s: %s", fault, error)

    def _judged(self, answer: dict[str, Any]) -> LoginToken | None:
        fault = _fault(answer, self._settings)
        principal = principal_from(answer, PrincipalKind.OPAQUE, self._settings) if not fault else None
        if principal is None:
            logger.info("a token is refused: %s", fault or "it has no subject")
            return None
        return login_token(principal, self._settings.issuer or "")


def _fault(answer: dict[str, Any], settings: LoginSettings) -> str:
    """Return why a token is refused; an empty text if nothing is wrong with it."""
    now, leeway = time.time(), settings.leeway_seconds
    starts, expires = answer.get("nbf", 0), answer.get("exp")
    checks = (
        (answer.get("active") is True, "the provider says that it is not active"),
        (answer.get("iss", settings.issuer) == settings.issuer, "it is of another issuer than login.issuer"),
        (is_for(settings.audience or "", answer.get("aud")), "it is for another audience than login.audience"),
        (serves_its_bearer(answer) and answer.get("token_type") not in _FOREIGN_TYPES, "it is not an access token"),
        (is_time(starts) and starts <= now + leeway, "it is not valid yet"),
        (expires is None or (is_time(expires) and expires + leeway > now), "it has expired"),
    )
    return next((reason for holds, reason in checks if not holds), "")


def _lifetime(token: LoginToken) -> float:
    if token.expires_at is None:
        return _VALID_SECONDS
    return min(_VALID_SECONDS, max(0.0, token.expires_at - time.time()))


def _remember(known: OrderedDict[bytes, Any], digest: bytes, value: object) -> None:
    known[digest] = value
    known.move_to_end(digest)
    while len(known) > _MAX_REMEMBERED:
        known.popitem(last=False)
