"""Run scripts of skills for clients and the command line: `factory` sets it up, `report` describes the results."""

from __future__ import annotations

from typing import Final

from server.capabilities.scripts.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="scripts", sections=(SECTION,))
