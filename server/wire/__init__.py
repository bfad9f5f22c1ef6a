"""Between Python and the wire: errors as JSON-RPC codes, bounds of requests, arguments of tools, pages of lists."""
