"""Add skills to a user's message: the skill that it calls, triggers or matches best, with the tools that it may use.

Pure functions over skills and rankings. `injection` adds the best match; `assembly` combines it with slash commands and
trigger words. `coordinator` selects one skill together with its tools.
"""
