"""Results that answer many requests, whose JSON is made once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class KeptResult(dict[str, Any]):
    """A result that may answer many requests, so nobody changes it; `encoded` is its JSON, empty until it is made."""

    __slots__ = ("encoded",)

    def __init__(self, result: Mapping[str, Any]) -> None:
        """Keep a result that is not encoded yet."""
        super().__init__(result)
        self.encoded = b""
