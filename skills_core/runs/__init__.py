"""Runs: skills performed with a model, their tools and scripts, scores, and workflows.

Off by default. Dependencies beyond the core's come with the extra `run` and are imported when used. The room knows
nothing of MCP, HTTP, the process's environment or the command line: a run gets what it needs as a value or a callback.
"""
