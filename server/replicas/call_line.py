"""One call between two replicas: its messages, and signs of life, since either of them may end at any time."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from server.replicas.call_messages import Alive, encoded
from server.replicas.errors import LinkLostError
from server.replicas.link import BEAT_SECONDS

if TYPE_CHECKING:
    from server.replicas.call_messages import Message
    from server.replicas.link import RedisLink

__all__ = ["CallLine", "channel_of"]

_SILENT_SECONDS: Final = 5.0
_MAX_WAITING: Final = 1000
# Messages that wait to be read; a replica that sends more has failed, and is silent from then on.


def channel_of(replica: str) -> str:
    """Return the channel on which a replica receives the messages of calls."""
    return f"calls:{replica}"


class CallLine:
    """The messages of one call with another replica."""

    def __init__(self, link: RedisLink, other: str, call: str) -> None:
        """Talk with the replica `other` about `call` over `link`."""
        self.call = call
        self._link = link
        self._channel = channel_of(other)
        self._sending, self._receiving = anyio.create_memory_object_stream["Message"](_MAX_WAITING)

    def put(self, message: Message) -> None:
        """Take a message that has come."""
        with suppress(anyio.WouldBlock):
            self._sending.send_nowait(message)

    async def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            LinkLostError: the other replica does not listen, or Redis cannot be reached.
        """
        if not await self._link.publish(self._channel, encoded(message)):
            raise LinkLostError("the other replica has ended, or cannot reach Redis now")

    async def receive(self) -> Message:
        """Return the next message that is not a mere sign of life.

        Raises:
            LinkLostError: the other replica has been silent for too long.
        """
        while True:
            try:
                with anyio.fail_after(_SILENT_SECONDS):
                    message = await self._receiving.receive()
            except TimeoutError:
                raise LinkLostError("the other replica is silent") from None
            if not isinstance(message, Alive):
                return message

    async def show_life(self) -> None:
        """Send signs of life until cancelled."""
        while True:
            await anyio.sleep(BEAT_SECONDS)
            # The other side notices that they are missing.
            with suppress(LinkLostError):
                await self.send(Alive(id=self.call))

    def close(self) -> None:
        """Drop what was not read."""
        self._sending.close()
        self._receiving.close()
