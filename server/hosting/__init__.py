"""The library being served: its host, verified reads, usage, search results, and the events that a change makes."""
