"""Skills of other servers: listed over MCP, verified as the Skills extension asks of hosts, written to folders.

`address` says where, `bounds` limits what may come from there, `client` speaks the protocol, `checking` holds what
came against the rules of `skills_core`, `fetching` writes it. `report` and `commands` are the command line's. A
server is taken for hostile throughout: bounded in bytes, time and pages, and never believed about a path.
"""
