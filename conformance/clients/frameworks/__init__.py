"""Programs that ask a framework's agent once; they run in the environment of the frameworks."""
