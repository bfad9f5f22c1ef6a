"""What the commands `eval`, `triggers` and `lint` do and print."""
