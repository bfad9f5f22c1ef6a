"""What happened in a run, to be looked at afterwards: spans for whoever collects them, and a JSON file for people."""
