"""The MCP server and the command line of skillserve, on top of `skills_core`."""

__version__ = "0.1.0"
