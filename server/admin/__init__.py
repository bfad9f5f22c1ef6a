"""Administration of a running server: its status, and reloads."""
