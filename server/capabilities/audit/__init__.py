"""Audits of skills: commands and settings; the rules are in `skills_core.audit`."""

from __future__ import annotations

from typing import Final

from server.capabilities.audit.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="audit", sections=(SECTION,))
