"""The commands, one module for each command or closely related group."""
