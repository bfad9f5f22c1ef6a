"""guard."""

from __future__ import annotations

from typing import Final

from server.capabilities.guard.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="guard", sections=(SECTION,))
