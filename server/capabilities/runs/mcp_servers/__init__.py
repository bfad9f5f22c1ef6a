"""Connect a run to the configured MCP servers, and offer it their tools."""
