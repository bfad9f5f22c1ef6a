"""Runs of skills and workflows, for servers and for the command line.

`supervisor` holds the `service` of a server, which `factory` builds from the library and the settings. `skill_runner`
runs one skill with its tools. `run_list` lists recorded runs and their traces. A server imports only
`supervisor` and `telemetry` when it starts.
"""

from __future__ import annotations

from typing import Final

from server.capabilities.runs.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="runs", sections=(SECTION,))
