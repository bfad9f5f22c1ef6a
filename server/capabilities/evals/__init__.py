"""Evals as a person runs them: what is a skill worth, and is it loaded when it should be.

`iterations` runs the test cases of a skill with and without it, and `triggers` its trigger queries. `proposals` asks a
model for a change, `lint` compares the skills of a catalog, and `report` shows the results. `agents` perform the runs
with the `skills` under test.
"""

from __future__ import annotations

from typing import Final

from server.capabilities.evals.settings import SECTION
from server.capability import Capability

CAPABILITY: Final = Capability(name="evals", sections=(SECTION,))
