"""Links by which the server's user opens the page as its operator: each works once, and for a minute."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from typing import Final

LINK_SECONDS: Final = 60.0
"""How long a link works."""

_MAX_LINKS: Final = 100


class OperatorLinks:
    """The codes of the links that were not used yet. Whoever receives one has to be the server's user."""

    def __init__(self) -> None:
        """Begin without links."""
        self._codes: OrderedDict[bytes, float] = OrderedDict()

    def new_code(self) -> str:
        """Return the code of a new link."""
        code = secrets.token_urlsafe(32)
        self._codes[_digest(code)] = time.monotonic() + LINK_SECONDS
        if len(self._codes) > _MAX_LINKS:
            self._codes.popitem(last=False)
        return code

    def redeem(self, code: str) -> bool:
        """Tell whether a code is one of a link that works, which it does not from now on."""
        return self._codes.pop(_digest(code), 0.0) > time.monotonic()


def _digest(code: str) -> bytes:
    # So the time of the comparison tells nothing about the codes.
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()
