"""Verify the skills of other servers and install them on disk.

`entries` parses what a server says of a skill, `verification` compares it with the files, and `installation` checks
their paths, writes them, and finds what was edited since. MCP and HTTP are the matter of
`server.capabilities.remote`.
"""
