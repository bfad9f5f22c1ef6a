"""Settings, sources, trust and the facts about this machine: everything that is read before a library is opened."""
