"""Pace repeated work: pauses between retries, and a token bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds to wait before each retry: doubled each time, up to a limit."""

    first: float = 0.5
    limit: float = 60.0

    def __iter__(self) -> Iterator[float]:
        seconds = self.first
        while True:
            yield seconds
            seconds = min(2 * seconds, self.limit)


@dataclass(slots=True)
class TokenBucket:
    """At most `burst` tokens, refilled at `rate` a second; `tokens` were counted at the time `at`."""

    rate: float
    burst: float
    at: float
    tokens: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.burst

    def take(self, now: float) -> float:
        """Take a token and return 0; if there is none, return the seconds until there is one."""
        tokens = min(self.burst, self.tokens + (now - self.at) * self.rate)
        self.at = now
        self.tokens = tokens - 1 if tokens >= 1 else tokens
        return 0.0 if tokens >= 1 else (1 - tokens) / self.rate

    def is_full(self, now: float) -> bool:
        """Tell whether all tokens have come back."""
        return self.tokens + (now - self.at) * self.rate >= self.burst
