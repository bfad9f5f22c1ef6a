"""The command line: the commands in `commands`, and what they share to print results and to ask the user."""
