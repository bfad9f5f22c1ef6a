"""Writes what `init` and `validate --fix` write."""
