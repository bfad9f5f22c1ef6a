"""A model's proposal for a skill: the signals it is asked with, its checked answer, and the diff."""
