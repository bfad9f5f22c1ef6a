"""Test cases, grades of their runs, and what the grades add up to: scores and the benchmark."""
