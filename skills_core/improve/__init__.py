"""Improvement of a skill after a failed run: when it is due, what the model is told, and how far the text may change."""
