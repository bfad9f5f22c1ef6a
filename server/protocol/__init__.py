"""The MCP surface: one module for each part of the protocol, put together by `server.protocol.server`."""
