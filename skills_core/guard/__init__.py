"""What decides on a tool call: patterns over the tool's name and its arguments as JSON."""
