"""The connection of a replica to the others: sealed messages on channels of Redis.

Redis delivers a message at most once, and not at all while the connection is away, so nothing may depend on a single
message. Because messages may be missed between two connections, `on_connected` is called after each one. A replica also
receives its own messages. Since it sends one at least every `BEAT_SECONDS`, a connection without messages is dead, and
one without its own messages is not usable yet: the replica may not be allowed to send.

Messages are sealed with the secret of the replicas: Redis and its other users can neither read nor forge them.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError

from server.capabilities.replicas.settings import ReplicaSettingsError
from server.limits.pacing import Backoff
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from redis.asyncio.client import PubSub

    from server.capabilities.replicas.settings import ReplicaSettings

    Handler: TypeAlias = "Callable[[Mapping[str, Any]], None]"

logger = logging.getLogger(__name__)

BEAT_SECONDS: Final = 1.0
_SILENT_SECONDS: Final = 4.0
_CALL_SECONDS: Final = 3.0
# How long a connection or a command may take: Redis may be frozen.
_LASTING_SECONDS: Final = 5.0
# A connection that was lost sooner is tried again with longer and longer pauses.
_FOREIGN_SECONDS: Final = 600.0
# A warning about messages that other servers sent is logged at most this often.


class LinkLostError(SkillsError):
    """Redis cannot be reached now, or refuses a message."""


class _Trouble(StrEnum):
    """Why there is no connection, as logged once until the connection is back."""

    AWAY = "Redis cannot be reached: {reason}"
    LOGIN = "Redis refuses the login: check the user and password in replicas.redis_url"
    RIGHTS = (
        "Redis does not allow this user the channels {name}:*, or a command that replicas need: "
        "docs/guides/replicas.md names the rights"
    )


class RedisLink:
    """One replica's connection; `run` keeps it up."""

    def __init__(self, settings: ReplicaSettings, keys: Sequence[str]) -> None:
        """Prepare a connection to the Redis of the settings; nothing is sent before `run`.

        Raises:
            ReplicaSettingsError: the Redis client does not accept the address.
        """
        assert settings.redis_url is not None  # noqa: S101 - for the type checker
        url = settings.redis_url.get_secret_value()
        _require_known_options(url)
        try:
            self._client = Redis.from_url(
                url,
                socket_timeout=_CALL_SECONDS,
                socket_connect_timeout=_CALL_SECONDS,
                # This module connects again by itself, so that no gap goes unnoticed.
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                health_check_interval=0,
            )
            # Some options are checked only here.
            self._client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        except (ValueError, TypeError):
            # Its message may contain parts of the address.
            raise ReplicaSettingsError("replicas.redis_url: the Redis client does not accept this address") from None
        self._codec = AESGCMRequestStateCodec(list(keys))
        self._prefix = settings.name
        self._name = secrets.token_hex(8)
        self._handlers: dict[str, Handler] = {}
        self.on_subscribed: Callable[[], None] = lambda: None
        """Called when messages can be sent, which is to send one at once."""
        self.on_connected: Callable[[], None] = lambda: None
        """Called after each connection: messages may have been missed before."""
        self._subscribed = False
        self._connected_at: float | None = None
        self._troubles: set[_Trouble] = set()
        self._foreign_at = float("-inf")

    @property
    def is_connected(self) -> bool:
        """Whether messages can be sent and received."""
        return self._connected_at is not None

    def listen(self, channel: str, handler: Handler) -> None:
        """Call `handler` with each message on a channel of the group; call this before `run`."""
        self._handlers[f"{self._prefix}:{channel}"] = handler

    async def publish(self, channel: str, message: Mapping[str, Any]) -> int:
        """Send a message to the listeners of a channel of the group; return how many there are.

        Raises:
            LinkLostError: Redis cannot be reached, or refuses the message.
        """
        if not self._subscribed:
            raise LinkLostError("Redis cannot be reached now")
        name = f"{self._prefix}:{channel}"
        content = {"channel": name, "from": self._name, "message": message}
        sealed = self._codec.seal(json.dumps(content).encode())
        try:
            return int(await self._client.publish(name, sealed))
        except Exception as error:  # noqa: BLE001 - see `_has_lasted`
            raise LinkLostError(self._log_lost(error)) from None

    async def run(self) -> None:
        """Keep the connection up until cancelled."""
        try:
            while True:
                for pause in Backoff(0.1, 5.0):
                    has_lasted = await self._has_lasted()
                    await anyio.sleep(pause)
                    if has_lasted:
                        break
        finally:
            with anyio.CancelScope(shield=True), suppress(Exception), anyio.move_on_after(_CALL_SECONDS):
                await self._client.aclose()

    async def _has_lasted(self) -> bool:
        """Receive until the connection fails; return whether there was one for a while."""
        pubsub = self._client.pubsub()
        try:
            await pubsub.subscribe(*self._handlers)
            await self._receive(pubsub)
        except Exception as error:  # noqa: BLE001 - see `_has_lasted`
            self._log_lost(error)
        finally:
            connected_at, self._connected_at, self._subscribed = self._connected_at, None, False
            with anyio.CancelScope(shield=True), suppress(Exception), anyio.move_on_after(_CALL_SECONDS):
                await pubsub.aclose()  # type: ignore[no-untyped-call]
        return connected_at is not None and time.monotonic() - connected_at >= _LASTING_SECONDS

    async def _receive(self, pubsub: PubSub) -> None:
        waiting = set(self._handlers)
        while True:
            found = await pubsub.get_message(timeout=_SILENT_SECONDS)
            if found is None:
                raise TimeoutError("it is silent")
            channel = _text(found["channel"])
            if found["type"] == "subscribe":
                waiting.discard(channel)
                if not waiting:
                    self._subscribed = True
                    self.on_subscribed()
            elif found["type"] == "message" and channel in self._handlers:
                message = self._opened(channel, _text(found["data"]))
                if message is not None:
                    self._handlers[channel](message)

    def _note_own_message(self) -> None:
        if self._connected_at is None:
            self._connected_at = time.monotonic()
            if self._troubles:
                logger.info("Redis is back: the skills are compared with the disk")
                self._troubles.clear()
            self.on_connected()

    def _note_foreign_message(self, channel: str) -> None:
        logger.debug("a message on %s is not sealed with a secret of this replica", one_line(channel))
        if time.monotonic() - self._foreign_at >= _FOREIGN_SECONDS:
            self._foreign_at = time.monotonic()
            logger.warning(
                "messages on the channel %s of Redis are not sealed with a secret of this replica, and are ignored: "
                "give all replicas the same secrets, and other servers another replicas.name",
                one_line(channel),
            )

    def _opened(self, channel: str, sealed: str) -> Mapping[str, Any] | None:
        """Return a message of a replica, None for anything else."""
        try:
            content = json.loads(self._codec.unseal(sealed))
        except (InvalidRequestState, ValueError):
            self._note_foreign_message(channel)
            return None
        if not isinstance(content, dict) or content.get("channel") != channel:
            return None
        if content.get("from") == self._name:
            self._note_own_message()
        message = content.get("message")
        return message if isinstance(message, dict) else None

    def _log_lost(self, error: Exception) -> str:
        """Log once what keeps this replica from Redis, not at every attempt; return it."""
        trouble = _trouble_of(error)
        level = logging.DEBUG if trouble in self._troubles else logging.WARNING
        self._troubles.add(trouble)
        message = trouble.format(reason=_reason(error), name=one_line(self._prefix))
        logger.log(
            level,
            "%s. This replica goes on serving, and tries again; it still notices changes on its disk, and learns of "
            "those that other replicas notice when Redis is back",
            message,
        )
        return message


def _require_known_options(url: str) -> None:
    """Refuse options in an address that would override those of this module.

    Raises:
        ReplicaSettingsError: there is such an option.
    """
    unknown = [name for name in parse_qs(urlsplit(url).query) if name != "db" and not name.startswith("ssl_")]
    if unknown:
        message = f"replicas.redis_url: the option {one_line(unknown[0])!r} is not supported; use db, ssl_... or none"
        raise ReplicaSettingsError(message)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _causes(error: Exception) -> Iterator[BaseException]:
    """Yield an error and what caused it: the Redis client wraps some answers in errors of the connection."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _trouble_of(error: Exception) -> _Trouble:
    for cause in _causes(error):
        if isinstance(cause, AuthenticationError):
            return _Trouble.LOGIN
        if isinstance(cause, NoPermissionError):
            return _Trouble.RIGHTS
    return _Trouble.AWAY


def _reason(error: Exception) -> str:
    """Describe a failure without the text of the Redis client, which may repeat parts of the address."""
    faults = (cause.strerror for cause in _causes(error) if isinstance(cause, OSError) and cause.strerror)
    return next((fault.lower() for fault in faults), type(error).__name__)
