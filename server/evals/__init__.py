"""Evals as a person runs them: processes, the workspace on disk, progress and the report."""
