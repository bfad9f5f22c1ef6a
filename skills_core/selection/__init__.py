"""Which skills answer a query: adk-skill's score word by word, and the ranking that is the default.

Knows skills and nothing of who asks. `policy` is what counts and what comes out, `lexical` is adk-skill's score,
`words` is what a query asks for, `fulltext` is an index of SQLite, and `ranking` orders skills by it.
"""

from skills_core.selection.lexical import SkillIndex
from skills_core.selection.policy import Band, Match, SelectionPolicy

__all__ = ["Band", "Match", "SelectionPolicy", "SkillIndex"]
