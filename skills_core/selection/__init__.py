"""Search skills by a query: adk-skill's lexical score, and the full-text ranking that is the default.

`policy` holds the input and output types and `lexical` adk-skill's score. The default ranking consists of `words` (the
query), `fulltext` (an SQLite index) and `ranking` (the search, and which words matched where), with `fusion` to merge
in a reranker's answer. `embeddings` is such a reranker. `drift` compares answers of two times.
"""

from skills_core.selection.fusion import FITTING_SIMILARITY, SIMILARITY_WEIGHT, Reranker, Similarities
from skills_core.selection.lexical import SkillIndex
from skills_core.selection.policy import Band, Match, SelectionPolicy, menu_of
from skills_core.selection.ranking import TOP_TEN, SkillSearch

__all__ = [
    "FITTING_SIMILARITY",
    "SIMILARITY_WEIGHT",
    "TOP_TEN",
    "Band",
    "Match",
    "Reranker",
    "SelectionPolicy",
    "Similarities",
    "SkillIndex",
    "SkillSearch",
    "menu_of",
]
