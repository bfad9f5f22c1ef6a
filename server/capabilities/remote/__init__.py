"""Skills of other servers: listed over MCP, verified as the Skills extension requires of hosts, written to folders.

`client` speaks the protocol, `skills` lists and verifies skills by the rules of `skills_core`, and `operations` runs
the commands `verify` and `fetch`. Servers are treated as hostile: their answers are bounded in bytes, time and pages,
and their paths are never trusted.
"""

from __future__ import annotations

from typing import Final

from server.capability import Capability

CAPABILITY: Final = Capability(name="remote")
