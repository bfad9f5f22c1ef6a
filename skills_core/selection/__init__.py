"""Search skills by a query.

`policy` holds the input and output types. `ranking` is the search: the default ranking over the words and the SQLite
index of `fulltext`, and adk-skill's score. `fusion` merges in the answer of a reranker, for example of `embeddings`.
`drift` compares what queries find at two times.
"""
