"""The guard of tool calls: the hook of agents, the tool that checks a call, and the patterns of the user."""

from __future__ import annotations

from typing import Final

from server.capabilities.guard.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="guard", sections=(SECTION,))
