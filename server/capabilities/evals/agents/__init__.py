"""Agents under test, with folders and a home for each run: coding agents by their command, and our own executor."""
