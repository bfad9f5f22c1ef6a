"""Limits of what a principal may ask of the server: how fast, and how much at once."""
