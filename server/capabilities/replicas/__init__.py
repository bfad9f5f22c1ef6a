"""Replicas: several servers with the same skills, which notify each other of changes through Redis."""

from __future__ import annotations

from typing import Final

from server.capabilities.replicas.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="replicas", sections=(SECTION,))
