"""What carries messages: stdio, HTTP and signals, and the start and stop of a server."""
