"""The MCP surface: one module for each part of the protocol, assembled by `server.protocol.server`."""
