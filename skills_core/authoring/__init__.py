"""For those who write skills: what to do about a diagnostic, and the mending of what is mechanical.

Builds on the core, which knows nothing of it. Reads and writes no files.
"""
