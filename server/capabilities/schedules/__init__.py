"""Scheduler skills: their folders in the state directory, and the runs that fire by the durable engine."""

from __future__ import annotations

from typing import Final

from server.capabilities.schedules.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="schedules", sections=(SECTION,))
