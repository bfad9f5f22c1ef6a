"""Find what the text of a skill mentions: tools by name, and the skill's own files by path.

Both searches need no model. `tools` finds the names that hosts give their tools, `paths` finds files of the skill's
folder, and `markdown` separates prose from fenced code.
"""

from skills_core.mentions.paths import PathMentions, Respelled, mentioned_paths
from skills_core.mentions.tools import ToolMention, capabilities_of, mentioned_tools

__all__ = ["PathMentions", "Respelled", "ToolMention", "capabilities_of", "mentioned_paths", "mentioned_tools"]
