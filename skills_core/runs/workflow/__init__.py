"""Workflows: skills performed one after another, with branches that depend on their outputs.

In the order of the data: `document` reads a file into the frozen values of `model`, with `parse_errors`, `references`,
`templates`, `tokens` and `conditions` for their texts; `check` checks a workflow against a catalog, and `plan` makes a
plan that can be run; `run` runs it, `evaluate` evaluates its conditions, `outcome` holds the outcome. `build` writes
the document for programs that have values instead. Faults of a workflow are data, see `faults`. The room knows nothing
of models: the function that performs a skill is passed in.
"""
