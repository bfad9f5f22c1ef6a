"""Programs started here: scripts that belong to skills, in a sandbox where there is one."""
