"""Add skills to a user's message: the skill that it calls, triggers or matches best, with the tools that it may use.

Pure functions over skills and rankings. `calls` parses slash commands, `section` adds skills by trigger words,
`injection` adds the best match, and `assembly` combines these. `coordinator` selects one skill together with its tools.
"""
