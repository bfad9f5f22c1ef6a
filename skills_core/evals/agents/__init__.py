"""Coding agents under test: how each is started, given a skill, and read.

Each module describes one command line: its command, the folder from which it takes skills, its settings for a run, and
what its output means. Nothing here starts a process.
"""
