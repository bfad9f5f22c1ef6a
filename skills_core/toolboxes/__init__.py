"""What the tools of hosts are called: a closed set of capabilities, and for each host its names for them.

`toolbox` is what can be said of one host's tools, `presets` holds the facts with their sources and dates.
"""

from skills_core.toolboxes.presets import OTHER_NAMES, PRESETS, toolbox_named
from skills_core.toolboxes.toolbox import Capability, Toolbox

__all__ = ["OTHER_NAMES", "PRESETS", "Capability", "Toolbox", "toolbox_named"]
