"""Improvement of skills after failed runs: the model's run on a copy, the checks, the measurement, the installation."""

from __future__ import annotations

from typing import Final

from server.capabilities.improve.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="improve", sections=(SECTION,))
