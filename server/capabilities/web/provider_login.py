"""Log in at the identity provider in a browser: OAuth 2.1, authorization code with PKCE.

The access token is one for this server, as clients have it: it names `login.audience` and is verified as theirs are.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import anyio

from server.capabilities.login.provider_requests import Provider, ProviderUnavailableError, provider_metadata
from server.capabilities.login.settings import is_safe_address
from server.capabilities.web.sessions import Seal, Sealed, cookie_name, remove_cookie, set_cookie
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from server.capabilities.login.settings import LoginSettings
    from server.capabilities.web.settings import WebSettings

logger = logging.getLogger(__name__)

CALLBACK: Final = "/page/login/callback"
"""Where the identity provider sends browsers back to; it has to know this address of the client."""

_SECONDS: Final = 600
# For typing a password, and finding the telephone.
_FRESH_SECONDS: Final = 600.0
_PAUSE_SECONDS: Final = 2.0
# Anybody can begin logins, so a provider without an answer is not asked for each of them.

_MAX_WORDS: Final = 200
_BASIC: Final = "client_secret_basic"
_UNREACHABLE: Final = "The identity provider does not answer. Try again in a minute; the server's log names the fault."


class ProviderLoginError(SkillsError):
    """A login at the provider has failed; the message is for the person, and `status` for the browser."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class _Transaction(Sealed, frozen=True, kw_only=True):
    """A login that has begun in a browser: what its answer has to prove, and where it leads."""

    state: str
    verifier: str
    back: str


class ProviderLogin:
    """Logs visitors in as one client of the identity provider."""

    def __init__(self, login: LoginSettings, web: WebSettings, provider: Provider, keys: Sequence[str] = ()) -> None:
        """Ask nothing yet. Logins are sealed with `keys`, as `Seal` does."""
        self._login, self._web = login, web
        self._provider = provider
        self._issuer = login.issuer or ""
        self._seal = Seal(_Transaction, "login", keys)
        self._metadata: Mapping[str, Any] | ProviderLoginError = {}
        self._fresh_until = float("-inf")
        self._asking = anyio.Lock()
        public = urlsplit(login.endpoint)
        self.origin = f"{public.scheme}://{public.netloc}"
        """The address at which people open the page, and to which the provider sends them back."""

    @property
    def name(self) -> str:
        """What people know the provider by."""
        return urlsplit(self._issuer).netloc

    async def begin(self, back: str) -> tuple[str, str, str]:
        """Begin a login that leads `back`: return the provider's address, and name and value of a cookie to keep.

        Raises:
            ProviderLoginError: the provider does not answer, or cannot log in browsers.
        """
        metadata = await self._found()
        state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
        challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._web.client_id or "",
            "redirect_uri": self.origin + CALLBACK,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": self._login.endpoint,
            "scope": " ".join(self._login.requested_scopes),
        }
        address = str(metadata["authorization_endpoint"])
        joint = "&" if "?" in address else "?"
        transaction = _Transaction(until=time.time() + _SECONDS, state=state, verifier=verifier, back=back)
        target = address + joint + urlencode({name: value for name, value in query.items() if value})
        return target, _suffix(state), self._seal.seal(transaction)

    async def finish(self, request: Request) -> tuple[str, str]:
        """Return the access token that the provider gives for its answer in a request, and where the login leads.

        Raises:
            ProviderLoginError: the answer is not one to a login of this browser, or the provider gives no token.
        """
        query = request.query_params
        state = query.get("state", "")
        text = request.cookies.get(cookie_name(request.scope, _suffix(state)))
        transaction = None if text is None else self._seal.open(text)
        if transaction is None or not hmac.compare_digest(transaction.state.encode(), state.encode()):
            raise ProviderLoginError("This login is over, or was begun in another browser. Log in again.")
        metadata = await self._found()
        issuer = query.get("iss", "")
        if issuer != self._issuer and (issuer or metadata.get("authorization_response_iss_parameter_supported")):
            # Another provider could have sent the browser here, for a code that this one would give (RFC 9207).
            raise ProviderLoginError("This answer is not one of the identity provider of this server.")
        if "error" in query:
            why = one_line(f"{query['error']} {query.get('error_description', '')}"[:_MAX_WORDS]).strip()
            raise ProviderLoginError(f"The identity provider did not log you in: {why}")
        return await self._token(metadata, query.get("code", ""), transaction.verifier), transaction.back

    def keep(self, request: Request, response: Response, suffix: str, value: str) -> None:
        """Have the browser keep a login that has begun, until it is over."""
        set_cookie(response, request, cookie_name(request.scope, suffix), value, _SECONDS)

    def forget(self, request: Request, response: Response) -> None:
        """Have the browser forget a login that is over: no other answer is accepted for it."""
        suffix = _suffix(request.query_params.get("state", ""))
        remove_cookie(response, request, cookie_name(request.scope, suffix))

    async def _token(self, metadata: Mapping[str, Any], code: str, verifier: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.origin + CALLBACK,
            "client_id": self._web.client_id or "",
            "code_verifier": verifier,
            "resource": self._login.endpoint,
        }
        client = None
        if self._web.client_secret is not None:
            secret = self._web.client_secret.get_secret_value()
            if _BASIC in metadata.get("token_endpoint_auth_methods_supported", [_BASIC]):
                client = quote_plus(form["client_id"]), quote_plus(secret)
            else:
                form["client_secret"] = secret
        try:
            answer = await self._provider.post(str(metadata["token_endpoint"]), form, client)
        except ProviderUnavailableError as error:
            logger.warning("the identity provider gives no token for a login on the page: %s", error)
            if error.status is None or error.status >= 500:  # noqa: PLR2004 - faults of the provider
                raise ProviderLoginError(_UNREACHABLE, 503) from None
            raise ProviderLoginError("The identity provider gives no token; the server's log says more.") from None
        token = answer.get("access_token")
        if not isinstance(token, str) or str(answer.get("token_type", "")).lower() != "bearer":
            raise ProviderLoginError("The identity provider gives no bearer token, which this server needs.")
        return token

    async def _found(self) -> Mapping[str, Any]:
        """Return the provider's metadata, which has what a login needs; it is asked for once at a time."""
        async with self._asking:
            if time.monotonic() >= self._fresh_until:
                self._metadata = await self._asked()
                is_fault = isinstance(self._metadata, ProviderLoginError)
                self._fresh_until = time.monotonic() + (_PAUSE_SECONDS if is_fault else _FRESH_SECONDS)
        if isinstance(self._metadata, ProviderLoginError):
            raise ProviderLoginError(str(self._metadata), self._metadata.status)
        return self._metadata

    async def _asked(self) -> Mapping[str, Any] | ProviderLoginError:
        try:
            found = await provider_metadata(self._provider, self._issuer)
        except ProviderUnavailableError as error:
            logger.warning("the identity provider cannot be asked for its metadata: %s", error)
            return ProviderLoginError(_UNREACHABLE, 503)
        if fault := _fault(found):
            logger.warning("the identity provider cannot log in browsers: %s", fault)
            return ProviderLoginError("The identity provider cannot log in browsers; the server's log says why.", 503)
        return found


def _fault(metadata: Mapping[str, Any]) -> str:
    """Return why browsers cannot log in at a provider with this metadata; an empty text if they can."""
    for name in ("authorization_endpoint", "token_endpoint"):
        if not _is_endpoint(metadata.get(name)):
            return f"its metadata has no usable {name}"
    methods = metadata.get("code_challenge_methods_supported", ["S256"])
    if not isinstance(methods, list) or "S256" not in methods:
        return "it does not support PKCE with S256"
    supported = metadata.get("token_endpoint_auth_methods_supported", [])
    return "" if isinstance(supported, list) else "its metadata is invalid"


def _is_endpoint(value: object) -> bool:
    """Tell whether a value is an address with TLS or of this machine; it may have a query, and no fragment."""
    return isinstance(value, str) and "#" not in value and is_safe_address(value.partition("?")[0])


def _suffix(state: str) -> str:
    """Return the end of the name of a login's cookie, so that logins in several tabs do not disturb each other."""
    return f"-login-{hashlib.sha256(state.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
