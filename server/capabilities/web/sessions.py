"""What a browser keeps for the page: cookies whose values only this server can make and read.

The server keeps nothing of a session but that it was ended: its cookie has the access token of the visitor, which is
verified again at each request. So a token that is revoked, or whose roles change, counts as it does for clients.
"""

from __future__ import annotations

import hmac
import os
import secrets
import time
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from starlette.datastructures import Headers

from server.transport.greeting import is_secure
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from mcp.server.request_state import AESGCMRequestStateCodec
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope

SESSION_SECONDS: Final = 12 * 3600.0
"""A session lasts for a working day at most, and no longer than its token."""

_MAX_COOKIE: Final = 3900
# Browsers keep 4,096 bytes of a name and its value.
_MAX_ENDED: Final = 10_000


class Sealed(Struct, frozen=True, kw_only=True):
    """A value that a browser keeps, but can neither read nor make. It is valid `until` a time in seconds since 1970."""

    until: float


SealedT = TypeVar("SealedT", bound=Sealed)


class Seal(Generic[SealedT]):
    """Seals the values of one kind for one purpose."""

    def __init__(self, kind: type[SealedT], purpose: str, keys: Sequence[str] = ()) -> None:
        """Seal with the first of the keys that several servers share; without any, with a key of this process."""
        self._decoder = msgspec.json.Decoder(kind)
        material = [key.encode() for key in keys] or [os.urandom(32)]
        self._keys = [hmac.digest(each, f"skillserve page: {purpose}".encode(), "sha256") for each in material]

    def seal(self, value: SealedT) -> str:
        """Return the text of a value for a cookie."""
        return self._codec.seal(zlib.compress(msgspec.json.encode(value)))

    def open(self, text: str) -> SealedT | None:
        """Return the value of a text, None if it is not one that was sealed for this purpose, or no longer valid."""
        from mcp.server.request_state import InvalidRequestState

        try:
            raw = self._codec.unseal(text)
        except InvalidRequestState:
            return None
        value = self._decoder.decode(zlib.decompress(raw))
        return value if value.until > time.time() else None

    @cached_property
    def _codec(self) -> AESGCMRequestStateCodec:
        # It imports a cipher, which a server without sessions does not need.
        from mcp.server.request_state import AESGCMRequestStateCodec

        return AESGCMRequestStateCodec(self._keys)


class SessionTooLargeError(SkillsError):
    """A token does not fit into a cookie."""


class Session(Sealed, frozen=True, kw_only=True):
    """A visitor in one browser, with the access token that it logged in with; without one, it is the server's user.

    `id` is secret. `renewable` tells that the token is one of the identity provider, which may give another one without
    asking the visitor for anything, and `begun` when it gave this one.
    """

    id: str
    begun: float
    token: str = ""
    renewable: bool = False

    @property
    def form_token(self) -> str:
        """What each form of this session contains. No page of another site, and no other session, has it."""
        return hmac.digest(self.id.encode(), b"form", "sha256").hex()


def new_session(token: str = "", *, renewable: bool = False) -> Session:
    """Return a session that begins now."""
    now = time.time()
    return Session(
        until=now + SESSION_SECONDS, id=secrets.token_urlsafe(16), begun=now, token=token, renewable=renewable
    )


class Sessions:
    """The sessions of one page."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        """Seal with `keys`, as `Seal` does."""
        self._seal = Seal(Session, "session", keys)
        self._ended: OrderedDict[str, float] = OrderedDict()

    def of(self, request: Request) -> Session | None:
        """Return the session of a request, None if it has none that is valid."""
        text = request.cookies.get(cookie_name(request.scope))
        found = None if text is None else self._seal.open(text)
        return None if found is None or found.id in self._ended else found

    def begin(self, session: Session, request: Request, response: Response) -> None:
        """Have the browser keep a session until it is closed.

        Raises:
            SessionTooLargeError: the token is too long for a cookie.
        """
        text = self._seal.seal(session)
        if len(text) > _MAX_COOKIE:
            message = (
                f"This access token has {len(session.token):,} characters, and does not fit into a cookie."
                " Ask for one with fewer roles, groups or claims."
            )
            raise SessionTooLargeError(message)
        set_cookie(response, request, cookie_name(request.scope), text)

    def end(self, request: Request, response: Response) -> None:
        """End the session of a request: a copy of its cookie opens nothing at this server either."""
        session = self.of(request)
        if session is not None:
            self._ended[session.id] = session.until
            while len(self._ended) > _MAX_ENDED or next(iter(self._ended.values())) < time.time():
                self._ended.popitem(last=False)
        self.forget(request, response)

    def forget(self, request: Request, response: Response) -> None:
        """Have the browser forget its session."""
        remove_cookie(response, request, cookie_name(request.scope))


def cookie_name(scope: Scope, suffix: str = "") -> str:
    """Return the name of a cookie: with TLS, one that a browser accepts of this host alone, and with TLS alone.

    Without TLS, it has the port, because browsers send the cookies of a host to all of its ports.
    """
    if is_secure(scope):
        return f"__Host-skillserve{suffix}"
    port = Headers(scope=scope).get("host", "").rpartition(":")[2]
    return f"skillserve-{port if port.isdecimal() and port.isascii() else 80}{suffix}"


def set_cookie(response: Response, request: Request, name: str, value: str, seconds: int | None = None) -> None:
    """Set a cookie that no script can read, and that no form of another site sends; `seconds` is how long it lasts."""
    response.set_cookie(name, value, seconds, secure=is_secure(request.scope), httponly=True, samesite="lax")


def remove_cookie(response: Response, request: Request, name: str) -> None:
    """Have the browser forget a cookie."""
    response.delete_cookie(name, secure=is_secure(request.scope), httponly=True, samesite="lax")
