"""Loaded skills as a catalog: which are active, which answers to which name, and which a caller may see."""
