"""The tool `activate_skill`: `calls` hands over skills, `recipients` tells for which client a text is written."""
