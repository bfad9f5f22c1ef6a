"""Static tokens in a running server: verified from memory, and read again when their file changes."""

from __future__ import annotations

import hmac
import logging
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from server.access.principal import Principal, PrincipalKind
from server.login.access_token import login_token
from server.login.token_file import PREFIX, StoredToken, TokenFile, TokenFileError, hash_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.login.access_token import LoginToken

__all__ = ["StaticTokens"]

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0
_ISSUER: Final = "skillserve"
_NO_HASH: Final = "0" * 64


class StaticTokens:
    """The static tokens of one server; a revoked token is refused about a second later."""

    def __init__(self, file: TokenFile) -> None:
        """Read the file.

        Raises:
            TokenFileError: the file cannot be used.
        """
        self._file = file
        self._stamp = self._read_stamp()
        self._tokens = {token.id: token for token in file.tokens()}
        self._responses: dict[str, set[anyio.CancelScope]] = {}

    def verify(self, text: str) -> LoginToken | None:
        """Return the token with this text, None if it is unknown, revoked or expired."""
        number = text.removeprefix(PREFIX).partition("_")[0]
        found = self._tokens.get(number)
        # Unknown tokens take as long as known ones with another secret.
        matches = hmac.compare_digest(hash_of(text), _NO_HASH if found is None else found.hash)
        if found is None or not matches or found.is_expired(datetime.now(UTC)):
            return None
        return login_token(_principal(found), _ISSUER)

    @contextmanager
    def ended_by_revocation(self, token: LoginToken, response: anyio.CancelScope) -> Iterator[None]:
        """Let the revocation of its token end a response that is being sent."""
        responses = self._responses.setdefault(token.client_id, set())
        responses.add(response)
        try:
            yield
        finally:
            responses.discard(response)
            if not responses:
                self._responses.pop(token.client_id, None)

    async def run(self) -> None:
        """Follow changes of the file until cancelled."""
        while True:
            await anyio.sleep(_POLL_SECONDS)
            await anyio.to_thread.run_sync(self.reload_if_changed)
            self._end_revoked()

    def _end_revoked(self) -> None:
        valid = {_client_id(token) for token in self._tokens.values()}
        for client_id, responses in self._responses.items():
            if client_id not in valid:
                for response in responses:
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
        self._tokens = {token.id: token for token in tokens}

    def _read_stamp(self) -> tuple[int, ...]:
        try:
            found = self._file.path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode


def _principal(token: StoredToken) -> Principal:
    expires = None if token.expires is None else int(token.expires.timestamp())
    return Principal(token.name, PrincipalKind.TOKEN, frozenset(token.roles), frozenset(), _client_id(token), expires)


def _client_id(token: StoredToken) -> str:
    return f"token:{token.id}"
