"""Histories of the sources that the settings name."""

from __future__ import annotations

from typing import Final

from server.capabilities.history.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="history", sections=(SECTION,))
