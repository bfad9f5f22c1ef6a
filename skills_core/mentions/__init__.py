"""Find what the text of a skill mentions: tools by name, and the skill's own files by path.

No search needs a model. `tools` finds the names that hosts give their tools, `paths` finds files of the skill's
folder, `scripts` finds scripts that this folder lacks, and `markdown` separates prose from fenced code.
"""

from skills_core.mentions.paths import PathMentions, Respelled, mentioned_paths
from skills_core.mentions.scripts import MissingScript, missing_scripts
from skills_core.mentions.tools import ToolMention, mentioned_tools, purposes_of

__all__ = [
    "MissingScript",
    "PathMentions",
    "Respelled",
    "ToolMention",
    "mentioned_paths",
    "mentioned_tools",
    "missing_scripts",
    "purposes_of",
]
