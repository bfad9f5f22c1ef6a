"""Requests and results on the wire: JSON-RPC error codes, limits of requests, tool arguments, pages of lists."""
