"""Calls of tools: one module for each tool or group of tools, found by `server.protocol.tools.dispatch`."""
