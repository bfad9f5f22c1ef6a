"""Log lines: for people, or as JSON."""
