"""Who may ask the identity provider about a token now: no sender of invented tokens takes the turns of others."""

from __future__ import annotations

import ipaddress
import time
from collections import Counter, OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from server.login.access_token import ProviderUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KNOWN", "Turns", "sender_of"]

KNOWN: Final = "known"
"""The sender of all tokens that were valid when the provider was last asked about them. No address is called so."""

_MAX_KNOWN: Final = 32
_MAX_OTHERS: Final = 64
# Together they are fewer than the 100 connections of a client of httpx, so that keys can be fetched beside them.
_AWAY_SECONDS: Final = 2.0
# The provider is not asked again so soon after it failed.
_MAX_AWAY: Final = 1024
_IPV6_NETWORK: Final = 2**128 - 2**64


class Turns:
    """Counts open questions by their sender, and lets a failed one hold up its own sender only."""

    def __init__(self) -> None:
        """Let everyone ask."""
        self._open: Counter[str] = Counter()
        self._away: OrderedDict[str, float] = OrderedDict()

    @contextmanager
    def taken(self, sender: str) -> Iterator[None]:
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
        if sender == KNOWN:
            return self._open[KNOWN] < _MAX_KNOWN
        # A sender has at most as many turns as it leaves to others: the first one half of them, the next one a quarter.
        others = self._open.total() - self._open[KNOWN]
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
