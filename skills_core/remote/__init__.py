"""Verify the skills of other servers and install them on disk.

`verification` parses what a server says of a skill and compares it with the files. `installation` checks their paths,
writes them, and finds what was edited since. MCP and HTTP are in `server.capabilities.remote`.
"""
