"""The history of sources: a git repository for each, apart from the user's files, with commits, diffs and rollbacks."""
