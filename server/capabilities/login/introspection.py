"""Verify opaque access tokens by asking the identity provider (RFC 7662), also while responses to them are open.

The senders of tokens take turns: a sender of invented tokens does not take the turns of others.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from server.access import PrincipalKind
from server.capabilities.login.provider_requests import ProviderUnavailableError
from server.capabilities.login.refusals import RefusalLog
from server.capabilities.login.token_claims import (
    BOUND,
    digest_of,
    is_bound,
    is_for,
    is_time,
    login_token,
    principal_from,
    serves_its_bearer,
)

if TYPE_CHECKING:
    from server.capabilities.login.provider_requests import Provider
    from server.capabilities.login.settings import LoginSettings
    from server.capabilities.login.token_claims import LoginToken, OpenResponses

logger = logging.getLogger(__name__)

_VALID_SECONDS: Final = 60.0
_INVALID_SECONDS: Final = 10.0
_OUTAGE_SECONDS: Final = 300.0
# While the provider cannot be asked, its last answer counts until it is so old. A sender of invented tokens who
# overloads the provider, or makes it limit this server, does not lock out those who work.
_RETRY_SECONDS: Final = 10.0
# Meanwhile, it is asked about a token at most this often, because each question may last until its time limit.
_CHECK_SECONDS: Final = 5.0
# Costs nothing while the last answer about a token is fresh.
_AT_ONCE: Final = 16
# Half of the questions that may be open about known tokens; the others are for new requests.
_QUIET_SECONDS: Final = 2.0
# So long after a warning, faults are logged as information.
_BAD_REQUEST: Final = 400
_MAX_VALID: Final = 8192
_MAX_INVALID: Final = 1024
_FOREIGN_TYPES: Final = ("refresh_token", "id_token")

_KNOWN: Final = "known"
# The sender of all tokens that were valid when the provider was last asked about them. No address is called so.

_MAX_KNOWN: Final = 32
_MAX_OTHERS: Final = 64
# Together they are fewer than the 100 connections of a client of httpx, so that keys can be fetched beside them.
_AWAY_SECONDS: Final = 2.0
# The provider is not asked again so soon after it failed.
_MAX_AWAY: Final = 1024
_IPV6_NETWORK: Final = 2**128 - 2**64


class _OpenQuestions:
    """Limits the open questions of each sender; after a failed one, its sender has to wait."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._away: OrderedDict[str, float] = OrderedDict()

    @contextmanager
    def asking(self, sender: str) -> Iterator[None]:
        """Count the question that is asked inside.

        Raises:
            ProviderUnavailableError: the sender may not ask now.
        """
        if time.monotonic() < self._away.get(sender, float("-inf")) or not self._has_room(sender):
            raise ProviderUnavailableError("the provider cannot be asked about the token now")
        self._open[sender] += 1
        try:
            yield
        except ProviderUnavailableError as error:
            if not error.answered:
                self._hold_up(sender)
            raise
        finally:
            self._open[sender] -= 1
            if not self._open[sender]:
                del self._open[sender]

    def _has_room(self, sender: str) -> bool:
        if sender == _KNOWN:
            return self._open[_KNOWN] < _MAX_KNOWN
        # A sender has at most as many questions as it leaves to others: the first one half, the next one a quarter.
        others = self._open.total() - self._open[_KNOWN]
        return self._open[sender] < _MAX_OTHERS - others

    def _hold_up(self, sender: str) -> None:
        self._away[sender] = time.monotonic() + _AWAY_SECONDS
        self._away.move_to_end(sender)
        while len(self._away) > _MAX_AWAY:
            self._away.popitem(last=False)


def sender_of(address: str) -> str:
    """Return the sender at a network address: IPv6 gives a whole network to each customer."""
    try:
        found = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    return str(found.ipv4_mapped or ipaddress.IPv6Address(int(found) & _IPV6_NETWORK))


@dataclass(slots=True)
class _KnownToken:
    """What the provider said of a valid token, and when; it is asked again after `fresh_until`."""

    token: LoginToken
    given_at: float
    fresh_until: float


class _Refused(NamedTuple):
    """Why the provider's answer about a token does not suffice, and until when that counts.

    The token is `genuine` if the provider knows it.
    """

    why: str
    genuine: bool
    until: float = 0.0


@dataclass(slots=True)
class _Question:
    """A question to the provider, and why it has failed."""

    done: anyio.Event = field(default_factory=anyio.Event)
    fault: ProviderUnavailableError | None = None


class Introspection:
    """Asks about tokens; answers are remembered briefly, and only one question about each token is open at a time.

    Valid answers are kept longer: they distinguish the tokens of users from invented ones, and count during an outage.
    """

    def __init__(
        self,
        settings: LoginSettings,
        provider: Provider,
        refusals: RefusalLog | None = None,
        responses: OpenResponses | None = None,
    ) -> None:
        """Ask nothing yet; refused tokens are logged in `refusals`, and those of `responses` end with their tokens."""
        self._settings = settings
        self._refusals = refusals or RefusalLog()
        self._provider = provider
        # Kept apart, so that invented tokens do not displace valid ones. Keys are hashes: no token stays in memory.
        self._valid: OrderedDict[bytes, _KnownToken] = OrderedDict()
        self._invalid: OrderedDict[bytes, _Refused] = OrderedDict()
        self._pending: dict[bytes, _Question] = {}
        self._questions = _OpenQuestions()
        self._quiet_until = float("-inf")
        self._responses = {} if responses is None else responses

    async def verify(self, text: str, address: str = "") -> LoginToken | None:
        """Return the token if the provider says that it is active and meant for this server.

        `address` is the network address that the token comes from.

        Raises:
            ProviderUnavailableError: the provider cannot be asked.
        """
        digest = digest_of(text)
        while True:
            now = time.monotonic()
            answer = self._valid.get(digest)
            if answer is not None and answer.fresh_until > now:
                return answer.token
            refused = self._invalid.get(digest)
            if refused is not None and refused.until > now:
                self._refusals.token(text, refused.why, genuine=refused.genuine)
                return None
            if (pending := self._pending.get(digest)) is None:
                break
            await pending.done.wait()
            if pending.fault is not None:
                return self._last_answer(digest, pending.fault)
            # The request that asked may have been cancelled, or its answer is not remembered.
        self._pending[digest] = question = _Question()
        try:
            with self._questions.asking(_KNOWN if answer is not None else sender_of(address)):
                return await self._ask(text, digest)
        except ProviderUnavailableError as error:
            question.fault = error
            return self._last_answer(digest, error)
        finally:
            self._pending.pop(digest).done.set()

    def known(self, text: str) -> LoginToken | None:
        """Return the token if an answer of the provider that is still fresh says that it is valid."""
        answer = self._valid.get(digest_of(text))
        return answer.token if answer is not None and answer.fresh_until > time.monotonic() else None

    async def run(self) -> None:
        """Verify the tokens of open responses again and again until cancelled.

        A response ends when the provider refuses its token, or changes what that allows.
        """
        while True:
            await anyio.sleep(_CHECK_SECONDS)
            by_text: dict[str, list[anyio.CancelScope]] = defaultdict(list)
            for response, (token, text) in self._responses.items():
                if token.principal.kind is PrincipalKind.OPAQUE:
                    by_text[text].append(response)
            tokens = iter(by_text.items())
            async with anyio.create_task_group() as tasks:
                for _ in range(min(_AT_ONCE, len(by_text))):
                    tasks.start_soon(self._check_each, tokens)

    async def _check_each(self, tokens: Iterator[tuple[str, list[anyio.CancelScope]]]) -> None:
        """Check tokens that no other task takes from the same iterator."""
        for text, responses in tokens:
            try:
                found = await self.verify(text)
            except ProviderUnavailableError:
                # Its last answer would have counted for some minutes.
                found = None
            for response in responses:
                is_open = response in self._responses
                if is_open and (found is None or _rights(found) != _rights(self._responses[response][0])):
                    response.cancel()

    def _last_answer(self, digest: bytes, fault: ProviderUnavailableError) -> LoginToken:
        """Return the token of the last answer if that still counts; raise `fault` otherwise."""
        answer, now = self._valid.get(digest), time.monotonic()
        if answer is not None:
            left = _lifetime(answer.token, answer.given_at + _OUTAGE_SECONDS - now)
            if left > 0:
                answer.fresh_until = now + min(_RETRY_SECONDS, left)
                return answer.token
        # A new exception, because several requests may have waited for the same question.
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
        if isinstance(token, _Refused):
            self._refusals.token(text, token.why, genuine=token.genuine)
            self._valid.pop(digest, None)
            _remember(self._invalid, digest, token._replace(until=now + _INVALID_SECONDS), _MAX_INVALID)
            return None
        valid = _KnownToken(token, now, now + _lifetime(token, _VALID_SECONDS))
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

    def _judged(self, answer: dict[str, Any]) -> LoginToken | _Refused:
        fault = _fault(answer, self._settings)
        principal = principal_from(answer, PrincipalKind.OPAQUE, self._settings) if not fault else None
        if principal is None:
            return _Refused(fault or "it has no subject", genuine=answer.get("active") is True)
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


def _rights(token: LoginToken) -> tuple[object, ...]:
    """Return what a response depends on; a new expiry, for example, does not end it."""
    principal = token.principal
    return principal.subject, principal.client_id, principal.roles, principal.scopes
