"""The audit record of a server: who did what with which skill, append-only on the disk; and counts for analytics."""
