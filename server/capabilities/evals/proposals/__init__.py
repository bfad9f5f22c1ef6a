"""Proposed changes to a skill, from what an iteration of evals says about it."""
