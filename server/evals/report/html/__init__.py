"""The report as one self-contained HTML page; every text that is not ours is escaped by `markup`."""
