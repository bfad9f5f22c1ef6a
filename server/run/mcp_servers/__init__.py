"""The tools of other MCP servers, for the time of a run."""
