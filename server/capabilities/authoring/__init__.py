"""Write the files of the commands `init` and `validate --fix`."""

from __future__ import annotations

from typing import Final

from server.capability import Capability

CAPABILITY: Final = Capability(name="authoring")
