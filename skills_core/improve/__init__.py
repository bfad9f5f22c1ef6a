"""Improvement of a skill after a failed run: when it is due, what the model is told, and the bounds of a change."""
