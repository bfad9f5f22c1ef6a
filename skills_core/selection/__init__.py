"""Which skills answer a query: adk-skill's score word by word, and the ranking that is the default.

Knows skills and nothing of who asks. `policy` is what counts and what comes out, `lexical` is adk-skill's score,
`words` and `texts` are what is asked for and what is searched, `fulltext` is an index of SQLite, `reasons` say what
was found where, and `ranking` puts them together, by `fusion` with a second opinion if there is one; `menu` tells when
the first matches are a choice.
"""

from skills_core.selection.fusion import Reranker
from skills_core.selection.lexical import SkillIndex
from skills_core.selection.menu import menu_of
from skills_core.selection.policy import Band, Match, SelectionPolicy
from skills_core.selection.ranking import ALL_THAT_MATCH, SkillSearch

__all__ = ["ALL_THAT_MATCH", "Band", "Match", "Reranker", "SelectionPolicy", "SkillIndex", "SkillSearch", "menu_of"]
