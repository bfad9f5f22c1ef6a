"""Trigger tests: does an agent load a skill for what users say, and which description makes it do so.

Pure logic: outcomes of runs, verdicts on queries, the split of a set, and the revision of a description.
"""
