"""schedules."""

from __future__ import annotations

from typing import Final

from server.capabilities.schedules.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="schedules", sections=(SECTION,))
