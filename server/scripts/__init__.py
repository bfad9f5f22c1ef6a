"""Scripts of skills, for clients and for the command line: how they are run here, calls of the tool, what is told."""
