"""The library being served: the host, its views and their events, verified reads, usage, and search results."""
