"""Measure real MCP clients against a scripted model: `make clients`."""
