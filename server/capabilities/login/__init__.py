"""Login over HTTP: static tokens, tokens of an identity provider, and the refusals that clients can act on."""

from __future__ import annotations

from typing import Final

from server.capabilities.login.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="login", sections=(SECTION,))
