"""auditlog."""

from __future__ import annotations

from typing import Final

from server.capabilities.auditlog.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="auditlog", sections=(SECTION,))
