"""Search skills by a query: adk-skill's lexical score, and the full-text ranking that is the default.

`policy` holds the input and output types and `lexical` adk-skill's score. The default ranking consists of `words` (the
query), `fulltext` (an SQLite index) and `ranking` (the search, and which words matched where), with `fusion` to merge
in a reranker's answer. `embeddings` is such a reranker. `drift` compares answers of two times.
"""
