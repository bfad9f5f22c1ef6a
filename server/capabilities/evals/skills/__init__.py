"""The skills under test: versions to compare, and copies that are written for each run."""
