"""Test cases, grades of their runs, and what the grades add up to: benchmark, patterns and verdict."""
