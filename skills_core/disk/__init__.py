"""Access to the disk: scanning folders, and reading and writing files only within a root."""
