"""Improvement of skills after failed runs: the model's run on a copy, the checks, the measurement, the installation."""
