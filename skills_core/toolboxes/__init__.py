"""The names of hosts' tools: a closed set of capabilities, and each host's names for them.

`toolbox` defines the types, `presets` holds the data with sources and dates.
"""

from skills_core.toolboxes.presets import OTHER_NAMES, PRESETS, toolbox_named
from skills_core.toolboxes.toolbox import Capability, Toolbox

__all__ = ["OTHER_NAMES", "PRESETS", "Capability", "Toolbox", "toolbox_named"]
