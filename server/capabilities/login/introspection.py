"""Verify opaque access tokens by asking the identity provider (RFC 7662)."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import anyio

from server.access import PrincipalKind
from server.capabilities.login.access_token import (
    BOUND,
    ProviderUnavailableError,
    is_bound,
    is_for,
    is_time,
    login_token,
    principal_from,
    serves_its_bearer,
)
from server.capabilities.login.provider import KNOWN, Turns, sender_of

if TYPE_CHECKING:
    from server.capabilities.login.access_token import LoginToken
    from server.capabilities.login.provider import Provider
    from server.capabilities.login.settings import LoginSettings

__all__ = ["Introspection"]

logger = logging.getLogger(__name__)

_VALID_SECONDS: Final = 60.0
_INVALID_SECONDS: Final = 10.0
_OUTAGE_SECONDS: Final = 300.0
# While the provider cannot be asked, its last answer counts until it is so old. A sender of invented tokens who
# overloads the provider, or makes it limit this server, does not lock out those who work.
_RETRY_SECONDS: Final = 10.0
# Meanwhile, it is asked about a token at most this often, because each question may last until its time limit.
_QUIET_SECONDS: Final = 2.0
# So long after a warning, faults are logged as information.
_BAD_REQUEST: Final = 400
_MAX_VALID: Final = 8192
_MAX_INVALID: Final = 1024
_FOREIGN_TYPES: Final = ("refresh_token", "id_token")


@dataclass(slots=True)
class _Answer:
    """What the provider said of a valid token, and when; it is asked again after `fresh_until`."""

    token: LoginToken
    given_at: float
    fresh_until: float


@dataclass(slots=True)
class _Question:
    """A question to the provider, and why it has failed."""

    done: anyio.Event = field(default_factory=anyio.Event)
    fault: ProviderUnavailableError | None = None


class Introspection:
    """Asks about tokens; answers are remembered briefly, and one question a token is open at a time.

    Valid answers are kept after that. They tell the tokens of users from invented ones, and serve during an outage.
    """

    def __init__(self, settings: LoginSettings, provider: Provider) -> None:
        """Ask nothing yet."""
        self._settings = settings
        self._provider = provider
        # Kept apart, so that invented tokens do not displace valid ones. Keys are hashes: no token stays in memory.
        self._valid: OrderedDict[bytes, _Answer] = OrderedDict()
        self._invalid: OrderedDict[bytes, float] = OrderedDict()
        self._pending: dict[bytes, _Question] = {}
        self._turns = Turns()
        self._quiet_until = float("-inf")

    async def verify(self, text: str, address: str = "") -> LoginToken | None:
        """Return the token if the provider says that it is active and meant for this server.

        `address` is the network address that the token comes from.

        Raises:
            ProviderUnavailableError: the provider cannot be asked.
        """
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        while True:
            now = time.monotonic()
            answer = self._valid.get(digest)
            if answer is not None and answer.fresh_until > now:
                return answer.token
            if self._invalid.get(digest, now) > now:
                return None
            if (pending := self._pending.get(digest)) is None:
                break
            await pending.done.wait()
            if pending.fault is not None:
                return self._outlasting(digest, pending.fault)
            # Whoever asked may have been cancelled, or got an answer that is not remembered.
        self._pending[digest] = question = _Question()
        try:
            with self._turns.taken(KNOWN if answer is not None else sender_of(address)):
                return await self._ask(text, digest)
        except ProviderUnavailableError as error:
            question.fault = error
            return self._outlasting(digest, error)
        finally:
            self._pending.pop(digest).done.set()

    def _outlasting(self, digest: bytes, fault: ProviderUnavailableError) -> LoginToken:
        """Return the token of the last answer if that still counts.

        Raises:
            ProviderUnavailableError: there is none, or it is too old.
        """
        answer, now = self._valid.get(digest), time.monotonic()
        if answer is not None:
            left = _lifetime(answer.token, answer.given_at + _OUTAGE_SECONDS - now)
            if left > 0:
                answer.fresh_until = now + min(_RETRY_SECONDS, left)
                return answer.token
        # Another one, because several requests may have waited for the same question.
        raise ProviderUnavailableError(str(fault), status=fault.status) from None

    async def _ask(self, text: str, digest: bytes) -> LoginToken | None:
        settings = self._settings
        secret = settings.introspection_client_secret
        client = (settings.introspection_client_id or "", secret.get_secret_value() if secret else "")
        form = {"token": text, "token_type_hint": "access_token"}
        try:
            answer = await self._provider.post(settings.introspection_url or "", form, client)
        except ProviderUnavailableError as error:
            self._log(error)
            raise
        token = self._judged(answer)
        now = time.monotonic()
        if token is None:
            self._valid.pop(digest, None)
            _remember(self._invalid, digest, now + _INVALID_SECONDS, _MAX_INVALID)
        else:
            valid = _Answer(token, now, now + _lifetime(token, _VALID_SECONDS))
            _remember(self._valid, digest, valid, _MAX_VALID)
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
        (not is_bound(answer), BOUND),
        (serves_its_bearer(answer) and answer.get("token_type") not in _FOREIGN_TYPES, "it is not an access token"),
        (is_time(starts) and starts <= now + leeway, "it is not valid yet"),
        (expires is None or (is_time(expires) and expires + leeway > now), "it has expired"),
    )
    return next((reason for holds, reason in checks if not holds), "")


def _lifetime(token: LoginToken, at_most: float) -> float:
    """Return for how many seconds from now an answer about a token may count."""
    if token.expires_at is None:
        return at_most
    return min(at_most, max(0.0, token.expires_at - time.time()))


def _remember(known: OrderedDict[bytes, Any], digest: bytes, value: object, at_most: int) -> None:
    known[digest] = value
    known.move_to_end(digest)
    while len(known) > at_most:
        known.popitem(last=False)
