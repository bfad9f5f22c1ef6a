"""evals."""

from __future__ import annotations

from typing import Final

from server.capabilities.evals.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="evals", sections=(SECTION,))
