"""Skills handed over: `calls` of the tool, `recipients` they are for, and `conversations`, which had some before."""
