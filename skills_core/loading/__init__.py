"""Loading of sources: from files to the contents of all skills, completely or only for what changed."""
