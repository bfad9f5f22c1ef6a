"""Settings, sources, trust and facts about this machine: everything that a command reads before it opens a library."""
