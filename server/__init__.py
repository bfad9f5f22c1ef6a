"""The MCP server and the command line of skillserve, on top of `skills_core`."""

__version__ = "0.1.0"

VERSION_LINE = f"skillserve {__version__}"
"""What `skillserve --version` prints."""
