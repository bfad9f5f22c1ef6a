"""Workflows: skills performed one after another, with branches that depend on their outputs.

In the order of the data: `document` reads a file into the frozen values of `model`, and `conditions` parses and
evaluates their expressions; `plan` checks a workflow against a catalog and makes a plan that can be run; `run` runs it.
`build` writes the document for programs that have values instead. Faults of a workflow are data, see `faults`. The room
knows nothing of models: the function that performs a skill is passed in.
"""
