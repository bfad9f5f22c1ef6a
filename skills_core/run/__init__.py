"""Skills performed here, with a model: runs, their tools and scripts, scores, workflows.

Off until somebody switches it on. What it builds on beyond the core comes with the extra `run`, and is imported when
it is used. It knows nothing of MCP, HTTP, the process's environment or the command line: whatever of them a run needs
is handed in as a value or as one of the `ports`.
"""
