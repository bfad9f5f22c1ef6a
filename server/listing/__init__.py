"""What clients can list, derived from a catalog and settings.

Pure functions turn a catalog into the dicts that go over the wire, one module for each kind of entry; a `Snapshot`
holds the lists of one catalog. Nothing here depends on requests, connections or the disk.
"""
