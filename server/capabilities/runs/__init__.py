"""runs."""

from __future__ import annotations

from typing import Final

from server.capabilities.runs.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="runs", sections=(SECTION,))
