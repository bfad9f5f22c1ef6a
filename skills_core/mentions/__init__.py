"""What the text of a skill speaks of: tools by their names, and files of the skill by their paths.

Both look at the text once, without a model: `tools` finds names that hosts have for their tools, `paths` finds what
lies in the skill's folder. `markdown` tells prose from fenced code.
"""

from skills_core.mentions.paths import PathMentions, mentioned_paths
from skills_core.mentions.tools import ToolMention, capabilities_of, mentioned_tools

__all__ = ["PathMentions", "ToolMention", "capabilities_of", "mentioned_paths", "mentioned_tools"]
