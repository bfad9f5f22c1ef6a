"""The audit record of a server: who did what with which skill, append-only on the disk; and counts for analytics."""

from __future__ import annotations

from typing import Final

from server.capabilities.auditlog.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="auditlog", sections=(SECTION,))
