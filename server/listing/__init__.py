"""What clients can list, derived from a catalog alone.

Pure functions from a catalog to the wire's dicts, one module a kind of entry, and the `Snapshot` that holds them
for one catalog. Nothing here knows of requests, connections or the disk; the handlers of `server` stand on it.
"""
