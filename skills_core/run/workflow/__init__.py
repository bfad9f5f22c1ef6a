"""Workflows: skills performed one after another, with branches that depend on what came out.

In the order of the data: `document` reads a file into the frozen values of `model`, with `texts`, `references`,
`templates`, `tokens` and `conditions` for what stands in them; `check` holds a workflow against a catalog, and `plan`
makes it one that can be run; `run` runs it, `evaluation` decides its conditions, `outcome` is what it came to. What is
wrong with a workflow is data, see `faults`. Knows nothing of models: whoever performs a skill is handed in.
"""
