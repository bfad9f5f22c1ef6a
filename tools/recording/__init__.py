"""Record an edit of a skill that arrives in a real client, as an animated SVG: `make recording`."""
