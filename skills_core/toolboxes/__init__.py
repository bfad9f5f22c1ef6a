"""The names of hosts' tools: a closed set of capabilities, and each host's names for them."""

from skills_core.toolboxes.presets import OTHER_NAMES, PRESETS, Capability, Toolbox, toolbox_named

__all__ = ["OTHER_NAMES", "PRESETS", "Capability", "Toolbox", "toolbox_named"]
