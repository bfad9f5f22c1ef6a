"""Requests: the notes that are taken while one is answered, and the record of it."""
