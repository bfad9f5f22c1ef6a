"""Log which token was refused and why, without its text, and no faster than an operator can read."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from server.limits.pacing import TokenBucket
from skills_core.diagnostics import counted, one_line

logger = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 60.0
# A client that repeats its refused token in a loop gets a line this often.
_MAX_KEPT: Final = 1024
_RATE: Final = 1.0
_BURST: Final = 20
_MAX_NAME: Final = 80
_FINGERPRINT: Final = 12


def fingerprint(text: str) -> str:
    """Return the beginning of the SHA-256 of a token, by which its owner recognizes it; nobody can log in with it."""
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:_FINGERPRINT]}"


class RefusalLog:
    """The log of refused logins.

    Anybody can send invented tokens, so their lines are limited, apart from those of tokens that are `genuine`: made by
    `skillserve token`, or signed or named by the provider. A line says how many before it were left out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without refusals; `clock` returns seconds and never runs back."""
        self._clock = clock
        self._buckets = {genuine: TokenBucket(_RATE, _BURST, clock()) for genuine in (False, True)}
        self._logged: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._left_out = 0

    def token(self, text: str, why: str, *, name: str = "", genuine: bool = False) -> None:
        """Log why a token was refused; `name` is shown instead of its fingerprint."""
        self._log(f"token {one_line(name[:_MAX_NAME]) or fingerprint(text)}", why, genuine=genuine)

    def request(self, why: str, *, sender: str = "") -> None:
        """Log why a request was refused, whose token is not to blame; `sender` is the user of an accepted token."""
        self._log(f"user {one_line(sender[:_MAX_NAME])}" if sender else "", why, genuine=bool(sender))

    def _log(self, what: str, why: str, *, genuine: bool) -> None:
        now, said = self._clock(), (what, why)
        again = self._logged.get(said)
        if (what and again is not None and now < again) or self._buckets[genuine].take(now) > 0:
            self._left_out += 1
            return
        self._logged[said] = now + _AGAIN_SECONDS
        self._logged.move_to_end(said)
        if len(self._logged) > _MAX_KEPT:
            self._logged.popitem(last=False)
        more = f" (after {counted(self._left_out, 'refusal')} without a line)" if self._left_out else ""
        self._left_out = 0
        logger.info("login refused: %s%s%s", f"{what}: " if what else "", why, more)
