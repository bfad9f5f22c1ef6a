"""Lint of a catalog: skills that compete, collide on queries, are the same, or are never used."""
