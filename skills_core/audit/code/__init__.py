"""Code as the rules read it: Python and shell commands, and the files that they read and write."""
