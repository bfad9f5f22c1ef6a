"""The bearer tokens of a file: how it is read, and who sends one of them."""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import re
import secrets
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Meta, Struct

from server.access import Principal, PrincipalKind
from server.capabilities.login.refusals import RefusalLog
from server.capabilities.login.token_claims import login_token
from skills_core.disk.writing import InvalidJsonError, JsonFile
from skills_core.errors import Fault, FileRefusedError, SkillsError

if TYPE_CHECKING:
    import os

    from server.capabilities.login.token_claims import LoginToken, OpenResponses

logger = logging.getLogger(__name__)

PREFIX: Final = "sks_"
"""The beginning of every static token."""

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
_ID: Final = r"^[0-9a-f]{12}$"
_VERSION: Final = 1
_MAX_BYTES: Final = 4 * 1024 * 1024
_WRITABLE_BY_OTHERS: Final = 0o022

Name = Annotated[str, Meta(pattern=_NAME)]


class TokenFileError(SkillsError):
    """The file cannot be used, or a change does not fit; `unread` is true if reading may succeed later."""

    def __init__(self, message: str, *, unread: bool = False) -> None:
        super().__init__(message)
        self.unread = unread


class StoredToken(Struct, frozen=True, kw_only=True):
    """What the file keeps of a token: `hash` is the SHA-256 of its whole text, in hexadecimal digits."""

    id: Annotated[str, Meta(pattern=_ID)]
    name: Name
    roles: tuple[Name, ...]
    hash: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    created: Annotated[datetime, Meta(tz=True)]
    expires: Annotated[datetime, Meta(tz=True)] | None = None

    def is_expired(self, now: datetime) -> bool:
        """Tell whether the token has expired."""
        return self.expires is not None and self.expires <= now


class _Contents(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    tokens: tuple[StoredToken, ...]


def hash_of(text: str) -> str:
    """Return the hash of a token's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_name(text: str) -> bool:
    """Tell whether a text can be the name of a token or a role."""
    try:
        msgspec.convert(text, Name)
    except msgspec.ValidationError:
        return False
    return True


class TokenFile:
    """The file of static tokens; a missing file has none."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self.path = path
        self._file = JsonFile(path, _MAX_BYTES)

    def tokens(self) -> tuple[StoredToken, ...]:
        """Return the tokens in the order of their creation.

        Raises:
            TokenFileError: the file exists, but cannot be read, is invalid, or can be written by other users.
        """
        try:
            value = self._file.read(self._require_private)
        except InvalidJsonError:
            value = {}
        except FileRefusedError as error:
            raise TokenFileError(str(error), unread=error.fault is Fault.TRANSIENT) from None
        if value is None:
            return ()
        try:
            contents = msgspec.convert(value, _Contents)
        except msgspec.ValidationError:
            contents = None
        if contents is None or contents.version != _VERSION:
            message = (
                "this is not a file of tokens, so none of them is accepted; restore it, or remove it and add new ones"
            )
            raise TokenFileError(f"{self.path}: {message}")
        return contents.tokens

    def add(self, name: str, roles: tuple[str, ...], expires: datetime | None) -> str:
        """Create a token and return its text, which cannot be read again.

        Raises:
            TokenFileError: the name is taken or that of an ID, or the file is invalid or cannot be written.
        """
        if re.fullmatch(_ID, name):
            raise TokenFileError(f"{name} looks like the ID of a token; choose another name")
        number, now = secrets.token_hex(6), datetime.now(UTC).replace(microsecond=0)
        text = f"{PREFIX}{number}_{secrets.token_urlsafe(32)}"
        token = StoredToken(id=number, name=name, roles=roles, hash=hash_of(text), created=now, expires=expires)

        with self._changing() as tokens:
            if any(each.name == name for each in tokens):
                raise TokenFileError(f"there is a token {name} already; revoke it first, or choose another name")
            tokens.append(token)
        return text

    def revoke(self, name: str) -> bool:
        """Remove the token with this name or ID; return whether there was one.

        Raises:
            TokenFileError: it is the name of one token and the ID of another, or the file is invalid or cannot be
                written.
        """
        with self._changing() as tokens:
            found = [each for each in tokens if name in {each.name, each.id}]
            if len(found) > 1:
                ids = " or ".join(each.id for each in found if each.id != name)
                raise TokenFileError(f"{name} is the name of one token and the ID of another; name the first by {ids}")
            tokens[:] = [each for each in tokens if each not in found]
        return bool(found)

    def _require_private(self, status: os.stat_result) -> None:
        if sys.platform != "win32" and status.st_mode & _WRITABLE_BY_OTHERS:
            message = "other users can write this file, so none of its tokens is accepted; restrict it with chmod 600"
            raise TokenFileError(f"{self.path}: {message}")

    @contextmanager
    def _changing(self) -> Iterator[list[StoredToken]]:
        """Yield the tokens under a lock between processes, and write them if the block changes them."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._file.locked():
                before = self.tokens()
                tokens = [*before]
                yield tokens
                if tuple(tokens) != before:
                    self._file.write(msgspec.to_builtins(_Contents(_VERSION, tuple(tokens))))
        except FileRefusedError as error:
            raise TokenFileError(f"{self.path}: cannot be written: {error.message}") from None
        except OSError as error:
            raise TokenFileError(f"{self.path}: cannot be written: {(error.strerror or str(error)).lower()}") from None


_POLL_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1
# Between two looks at the file because of unknown tokens.
_LOOK_AT_MOST: Final = 2.0
_MAX_REVOKED: Final = 1024
# Revoked tokens that the log calls so, and by their names.
_ISSUER: Final = "skillserve"
_NO_HASH: Final = "0" * 64


class StaticTokens:
    """The static tokens of one server.

    A new token is accepted at once, and a revoked token is refused about a second later.
    """

    def __init__(
        self, file: TokenFile, refusals: RefusalLog | None = None, responses: OpenResponses | None = None
    ) -> None:
        """Read the file; refused tokens are logged in `refusals`, and those of `responses` end with their tokens.

        Raises:
            TokenFileError: the file cannot be used.
        """
        self._file = file
        self._refusals = refusals or RefusalLog()
        self._stamp = self._read_stamp()
        self._tokens = {token.id: token for token in file.tokens()}
        self._revoked: OrderedDict[str, StoredToken] = OrderedDict()
        self._responses = {} if responses is None else responses
        self._looking = anyio.Lock()
        self._looked_at = -math.inf

    async def current(self, text: str) -> LoginToken | None:
        """Return the token with this text as `verify` does; the file may have a token that is new to this server."""
        if self._with_text(text) is None:
            # Of those who wait for the look of another, none is held by a file system that hangs.
            with anyio.move_on_after(_LOOK_AT_MOST):
                await self._look_again()
        return self.verify(text)

    def verify(self, text: str) -> LoginToken | None:
        """Return the token with this text; log why if it is unknown, revoked or expired, and return None."""
        token = self.known(text)
        if token is None:
            self._log_refused(text, self._with_text(text))
        return token

    def known(self, text: str) -> LoginToken | None:
        """Return the token with this text if it is valid as far as this server knows."""
        found = self._with_text(text)
        if found is None or (found.expires is not None and found.is_expired(datetime.now(UTC))):
            return None
        return _login_of(found)

    def _with_text(self, text: str) -> StoredToken | None:
        found = self._tokens.get(_id_in(text))
        # Unknown tokens take as long as known ones with another secret.
        matches = hmac.compare_digest(hash_of(text), _NO_HASH if found is None else found.hash)
        return found if matches else None

    def _log_refused(self, text: str, found: StoredToken | None) -> None:
        number = _id_in(text)
        if found is not None:
            self._refusals.token(
                text, f"it expired at {found.expires:%Y-%m-%dT%H:%M:%SZ}", name=_shown(found), genuine=True
            )
            return
        known = self._tokens.get(number)
        revoked = self._revoked.get(number)
        if revoked is not None and hmac.compare_digest(hash_of(text), revoked.hash):
            self._refusals.token(text, "it was revoked", name=_shown(revoked), genuine=True)
        elif known is not None:
            why = "it has the ID of this token and another secret: it was copied in part, or invented"
            self._refusals.token(text, why, name=_shown(known))
        else:
            why = "it is unknown; see `skillserve token list`"
            self._refusals.token(text, why, name=number if re.fullmatch(_ID, number) else "")

    async def run(self) -> None:
        """Follow changes of the file until cancelled."""
        while True:
            await anyio.sleep(_POLL_SECONDS)
            async with self._looking:
                await self._look()

    async def _look_again(self) -> None:
        """Look at the file unless that was done since; whoever sends invented tokens lets it happen ten times a second.

        Requests that come meanwhile wait for the same look.
        """
        asked = time.monotonic()
        async with self._looking:
            if self._looked_at >= asked:
                return
            await anyio.sleep(max(0.0, self._looked_at + _LOOK_SECONDS - asked))
            await self._look()

    async def _look(self) -> None:
        self._looked_at = time.monotonic()
        await anyio.to_thread.run_sync(self.reload_if_changed)
        self._end_revoked()

    def _end_revoked(self) -> None:
        valid = {_client_id(token) for token in self._tokens.values()}
        for response, (token, _) in self._responses.items():
            if token.principal.kind is PrincipalKind.TOKEN and token.client_id not in valid:
                response.cancel()

    def reload_if_changed(self) -> None:
        """Read the file again if it has changed; an invalid file has no valid token."""
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return
        try:
            tokens = self._file.tokens()
        except TokenFileError as error:
            if error.unread:
                return
            logger.error("%s", error)  # noqa: TRY400 - the message says all
            tokens = ()
        self._stamp = stamp
        before, self._tokens = self._tokens, {token.id: token for token in tokens}
        self._revoked.update((number, token) for number, token in before.items() if number not in self._tokens)
        while len(self._revoked) > _MAX_REVOKED:
            self._revoked.popitem(last=False)

    def _read_stamp(self) -> tuple[int, ...]:
        try:
            found = self._file.path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode


def _id_in(text: str) -> str:
    return text.removeprefix(PREFIX).partition("_")[0]


def _shown(token: StoredToken) -> str:
    return f"{token.id} ({token.name})"


@lru_cache(1024)
def _login_of(token: StoredToken) -> LoginToken:
    """Return what a request with a valid token logs in as; whether it is valid is asked for each request."""
    return login_token(_principal(token), _ISSUER)


def _principal(token: StoredToken) -> Principal:
    expires = None if token.expires is None else int(token.expires.timestamp())
    return Principal(token.name, PrincipalKind.TOKEN, frozenset(token.roles), frozenset(), _client_id(token), expires)


def _client_id(token: StoredToken) -> str:
    return f"token:{token.id}"
