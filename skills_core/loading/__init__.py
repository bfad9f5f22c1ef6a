"""From a source to the contents of all its skills, and again from what changed."""
