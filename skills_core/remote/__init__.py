"""Skills of other servers: what an entry must be, whether the files fit it, and how to write them to a disk.

Pure functions and files; nothing here knows of MCP or HTTP, `server.remote` does the asking.
"""
