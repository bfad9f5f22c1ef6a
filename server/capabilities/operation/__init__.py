"""What operators learn of a running server and do to it: probes, metrics, spans, status, and the reload of skills."""

from __future__ import annotations

from typing import Final

from server.capabilities.operation.settings import ADMIN_SECTION, SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="operation", sections=(SECTION, ADMIN_SECTION))
