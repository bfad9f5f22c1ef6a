"""Evals of skills: their files on disk, and the work that asks agents and models."""
